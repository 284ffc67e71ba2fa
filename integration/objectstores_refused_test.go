package integration

import (
	"errors"
	"strings"
	"testing"

	"minsep/internal/inspect"
	"minsep/internal/manifest"
	"minsep/internal/must"
	"minsep/internal/report"
	"minsep/internal/stattest"
	"minsep/internal/store"
)

// blames are what an error says that takes a read that failed for something that is stored.
var blames = []string{"overwrite", "meanwhile", "finished result", "another result", "is missing", "is not the one", "is not the table", "is expected", "not what", "cannot be used"}

func mustNotBlame(t *testing.T, refused int64, err error) {
	t.Helper()
	for _, blame := range blames {
		if strings.Contains(err.Error(), blame) {
			t.Errorf("after request %d was refused, an error says %q: %v", refused, blame, err)
		}
	}
}

// TestRefusedRequests has an object store refuse one request of a command, one after the other: a
// command that fails says so. No run directory is called broken, no result is taken for another one
// or for a finished one, and the command repeated completes with the bytes of a local run. Where a
// command only reads, every request is refused in turn where MINSEP_LONG is set, and some without.
func TestRefusedRequests(t *testing.T) {
	ctx := t.Context()
	here := t.TempDir()
	newPlace(t, here)
	must.Do(t, plan(ctx, here))
	want := contents(t, here, store.Join(here, "planned"))
	for scheme, faults := range objectStores(t) {
		t.Run(scheme, func(t *testing.T) {
			root := scheme + "://bucket/refused"
			planned := store.Join(root, "planned")
			newPlace(t, root)
			failed := 0
			for n := int64(1); ; n += 1 + n/2 { // while it writes: ever further
				faults.Refuse(n)
				err := plan(ctx, root)
				before := faults.Requests()
				faults.Refuse(0)
				if err != nil {
					failed++
					mustNotBlame(t, n, err)
				} else if before < n {
					break
				}
			}
			sameContents(t, contents(t, root, planned), want)
			for name, command := range map[string]func() error{
				"run": func() error { return plan(ctx, root) },
				"inspect": func() error {
					found, err := inspect.Directory(ctx, planned, inspect.Options{})
					return errors.Join(err, broken(found.Folders))
				},
				"report": func() error {
					r, err := report.Read(ctx, planned, report.Options{})
					if err == nil && broken(r.Folders) != nil {
						t.Errorf("a page says %s", r.Verdict)
					}
					return err
				},
				"compose": func() error { _, err := inspect.Apart(ctx, []string{planned}, 1); return err },
			} {
				faults.Refuse(0)
				if err := command(); err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				requests := faults.Requests()
				step := int64(1)
				if !stattest.Long() {
					step += requests / 20
				}
				for n := 1 + step/2; n <= requests; n += step {
					faults.Refuse(n)
					err := command()
					switch {
					case err == nil: // it was not needed, and what came out is right
					case errors.Is(err, inspect.ErrFailedCheck), errors.Is(err, manifest.ErrInvalid):
						t.Errorf("%s: request %d of %d was refused: %v", name, n, requests, err)
					case err != nil:
						mustNotBlame(t, n, err)
					}
				}
				t.Logf("%s: %d requests", name, requests)
			}
			faults.Refuse(0)
			inspected(t, planned, 6)
			if failed < 5 {
				t.Errorf("only %d runs failed", failed)
			}
		})
	}
}
