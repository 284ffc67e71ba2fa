//go:build !linux

package store

import "os"

func setDirect(*os.File, bool) {}
