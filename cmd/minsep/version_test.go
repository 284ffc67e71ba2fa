package main

import (
	"runtime/debug"
	"testing"

	"minsep/internal/manifest"
)

// TestVersion: the commit is shown where it is known, and whether the source was changed after it.
func TestVersion(t *testing.T) {
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "0123abcd"}
	for want, settings := range map[string][]debug.BuildSetting{
		"":                                 {{Key: "vcs.modified", Value: "true"}},
		" (commit 0123abcd)":               {revision, {Key: "vcs.modified", Value: "false"}},
		" (commit 0123abcd, with changes)": {revision, {Key: "vcs.modified", Value: "true"}},
	} {
		if got := versionOf(&debug.BuildInfo{Settings: settings}); got != manifest.Version+want {
			t.Errorf("got %q, want %q", got, manifest.Version+want)
		}
	}
}
