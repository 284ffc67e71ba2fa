package main

import (
	"testing"

	"minsep/internal/inspect"
)

// TestExposedText: the warning counts what is open to others, and its command is one line for a
// shell, whatever the paths.
func TestExposedText(t *testing.T) {
	got := exposedText([]inspect.Exposed{{Path: "run/batches", Files: 12, Open: true}, {Path: "my run/it's", Files: 1}, {Path: "-x/noise", Open: true}})
	want := `warning: modes let group or others read what is secret: batches (12 files), it's (1 file), noise (sizes of files); ` +
		`to mend it: chmod -R go= run/batches 'my run/it'\''s' ./-x/noise`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
