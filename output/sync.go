package output

import "io/fs"

// Sync waits until the disk has every row that Write has taken. It may be called
// beside Write, and not beside Close.
func (f *File) Sync() error {
	f.mu.Lock()
	file := f.file
	f.mu.Unlock()
	if file == nil {
		return fs.ErrClosed
	}
	if err := f.syncErr.Load(); err != nil {
		return *err
	}
	return file.Sync()
}
