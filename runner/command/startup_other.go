//go:build !linux

package command

// DropStartup does nothing here.
func DropStartup() {}
