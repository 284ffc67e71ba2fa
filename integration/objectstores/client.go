package objectstores

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"minsep/internal/store"
)

// Limits suit a service in the same process: short waits, and enough attempts for a busy machine.
var Limits = store.Limits{Attempts: 8, Wait: time.Millisecond}

// Client tests the client of an object store. Serve runs a service with a single bucket, "bucket",
// behind faults, and registers the client's scheme.
type Client struct {
	Scheme string
	Serve  func(t *testing.T, faults *Faults, limits store.Limits)
	Kinds  []string // kinds of faults under which results must not change
	Secret string   // a part of the credentials that no error may contain; "" for none
}

// Test runs every test, each with a fresh service.
func (c Client) Test(t *testing.T) {
	t.Run("conformance", func(t *testing.T) {
		c.Serve(t, &Faults{}, Limits)
		Conformance(t, c.Scheme+"://bucket/root", 41<<20)
	})
	for _, kind := range c.Kinds {
		t.Run("conformance with faults: "+kind, func(t *testing.T) { c.faulty(t, kind) })
	}
	t.Run("gives up", c.givesUp)
	t.Run("no bucket", c.noBucket)
}

// faulty runs the conformance test with faults in up to a third of the requests: results are the
// same.
func (c Client) faulty(t *testing.T, kind string) {
	f := &Faults{Kinds: []string{kind}, Chance: .3, Most: 2, Wait: 5 * time.Second}
	limits, large := Limits, 9<<20
	switch kind {
	case Hang:
		f.Chance = .1
		limits.Attempt, limits.Attempts, large = 400*time.Millisecond, 50, 2<<20 // many attempts, since a late answer counts as a hang
	case Wrong:
		large = 2 << 20 // only whole objects have checksums, ranges do not
	}
	c.Serve(t, f, limits)
	Conformance(t, c.Scheme+"://bucket/root", large)
	if f.Count(kind) == 0 {
		t.Error("there was no fault")
	}
}

// givesUp lets every request fail: the client must give up within its limits, and say so.
func (c Client) givesUp(t *testing.T) {
	ctx, name := context.Background(), c.Scheme+"://bucket/x"
	c.Serve(t, &Faults{Kinds: []string{Busy}, Chance: 1}, store.Limits{Attempts: 3, Wait: time.Millisecond})
	_, open := store.Open(ctx, name)
	for _, err := range []error{open, store.WriteFile(ctx, name, store.Options{}, []byte("x")), store.RemoveAll(ctx, name)} {
		if err == nil || !strings.Contains(err.Error(), "given up after 3 attempts") ||
			!strings.Contains(err.Error(), name) {
			t.Error(err)
		} else if c.Secret != "" &&
			strings.Contains(err.Error(), c.Secret) {
			t.Error("says the secret:", err)
		}
	}
}

func (c Client) noBucket(t *testing.T) {
	name := c.Scheme + "://another/x"
	c.Serve(t, &Faults{}, Limits)
	if _, err := store.Open(context.Background(), name); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := store.WriteFile(context.Background(), name, store.Options{}, []byte("x")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := os.Stat(c.Scheme + ":"); err == nil {
		t.Error("a local folder was made")
	}
}
