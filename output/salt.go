package output

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"strings"
)

// saltSuffix names the file beside the results that keeps their salt until a row
// does.
const saltSuffix = ".salt"

// Salt is that of this file's idempotency keys: the one in its rows, else the one that
// a killed run left beside it, else a new one. It is on the disk before Salt
// returns, so that a run which is killed before its first row does not ask under other
// keys when it is started again. The error is a *WriteError. Not for use beside Close.
func (f *File) Salt() (string, error) {
	if f.index.salt != "" || f.salt != "" || f.readOnly {
		return f.index.salt + f.salt, nil
	}
	name := f.path + saltSuffix
	const digits = 16
	if kept, err := os.ReadFile(name); err == nil && len(kept) == digits {
		if _, err := hex.DecodeString(string(kept)); err == nil {
			f.salt = string(kept)
			return f.salt, nil
		}
	}
	var random [digits / 2]byte
	rand.Read(random[:]) // never fails
	salt := hex.EncodeToString(random[:])
	if err := writeSynced(name, salt); err != nil {
		os.Remove(name)
		return "", &WriteError{Path: f.path, Err: err}
	}
	f.salt = salt
	return salt, nil
}

// writeSynced writes a file, 0600, that is on the disk with its name.
func writeSynced(name, text string) error {
	file, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(text)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return syncFolder(name)
}

// carries reports whether a row has a key with the salt that is kept beside.
func (f *File) carries(key string) bool { return f.salt != "" && strings.HasPrefix(key, f.salt+"-") }

// dropSalt removes the file beside: rows on the disk have the salt, or nothing was
// sent with it.
func (f *File) dropSalt() error {
	if err := os.Remove(f.path + saltSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
