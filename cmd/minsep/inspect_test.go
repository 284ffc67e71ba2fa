package main

import (
	"testing"

	"minsep/internal/inspect"
)

// TestExposedText: the warning counts what is open to others, and its command is one line for a
// shell, whatever the paths.
func TestExposedText(t *testing.T) {
	got := exposedText([]inspect.Exposed{{Path: "run/batches", Files: 12, Open: true}, {Path: "my run/it's", Files: 1}, {Path: "-x/noise", Open: true}, {Path: "file:///run/report-secret.html", Files: 1}})
	want := `warning: modes let group or others read what is secret: batches (12 files), it's (1 file, in a folder that is closed to them), noise (sizes of files), report-secret.html (1 file); ` +
		`to mend it: chmod -R go= run/batches 'my run/it'\''s' ./-x/noise /run/report-secret.html`
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
