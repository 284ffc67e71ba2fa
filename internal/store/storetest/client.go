package storetest

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

// Limits are for a service of the same process: short waits, and time enough for an answer on a
// machine that is busy.
var Limits = store.Limits{Attempts: 8, Wait: time.Millisecond}

// Client tests a client of an object store against a service with the one bucket "bucket", which
// serve runs behind faults and registers.
type Client struct {
	Scheme string
	Serve  func(t *testing.T, faults *Faults, limits store.Limits)
	Kinds  []string // of faults under which the results are the same
	Secret string   // of its credentials, which no error may hold; "" if there is none
}

// Test runs every test, each with a service of its own.
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

// faulty is the conformance with faults in a third of the requests: the same results.
func (c Client) faulty(t *testing.T, kind string) {
	f := &Faults{Kinds: []string{kind}, Chance: .3, Most: 2, Wait: 5 * time.Second}
	limits, large := Limits, 9<<20
	switch kind {
	case Hang:
		f.Chance = .1
		limits.Attempt, limits.Attempts, large = 400*time.Millisecond, 50, 2<<20 // many: an answer that is late is one that hangs
	case Wrong:
		large = 2 << 20 // whole objects have checksums, ranges of larger ones have not
	}
	c.Serve(t, f, limits)
	Conformance(t, c.Scheme+"://bucket/root", large)
	if f.Count(kind) == 0 {
		t.Error("there was no fault")
	}
}

// givesUp has every request fail: an error within the limits that says so.
func (c Client) givesUp(t *testing.T) {
	ctx, name := context.Background(), c.Scheme+"://bucket/x"
	c.Serve(t, &Faults{Kinds: []string{Busy}, Chance: 1}, store.Limits{Attempts: 3, Wait: time.Millisecond})
	_, open := store.Open(ctx, name)
	for _, err := range []error{open, store.WriteFile(ctx, name, store.Options{}, []byte("x")), store.RemoveAll(ctx, name)} {
		if err == nil || !strings.Contains(err.Error(), "given up after 3 attempts") || !strings.Contains(err.Error(), name) {
			t.Error(err)
		} else if c.Secret != "" && strings.Contains(err.Error(), c.Secret) {
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
