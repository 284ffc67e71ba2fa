package main

import (
	"runtime/debug"

	"minsep/internal/manifest"
)

// versionText returns the version that files and certificates record, and in brackets Go's version
// of a module that was built in a repository, with the commit. Only --version prints the latter:
// files must not depend on it.
func versionText() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return manifest.Version
	}
	return manifest.Version + " (" + info.Main.Version + ")"
}
