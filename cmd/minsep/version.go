package main

import (
	"runtime/debug"

	"minsep/manifest"
)

// versionText is the version that files and certificates name, and the commit of the source where
// the program was built in a repository. Nothing but --version says the commit: files have the same
// bytes whatever it is.
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
