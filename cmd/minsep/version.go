package main

import (
	"runtime/debug"

	"minsep/internal/manifest"
)

// versionText returns the version that files and certificates record, and the commit if the program
// was built in a repository. Only --version prints the commit: files must not depend on it.
func versionText() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return manifest.Version
	}
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	commit, changed := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value
		case s.Key == "vcs.modified" && s.Value == "true":
			changed = ", with changes"
		}
	}
	if commit == "" {
		return manifest.Version
	}
	return manifest.Version + " (commit " + commit + changed + ")"
}
