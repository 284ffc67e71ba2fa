package main

import (
	"errors"
	"flag"
	"testing"

	"minsep/internal/param"
	"minsep/internal/store"
)

// The command knows object stores and runners, which no package below it links.
func TestRegistered(t *testing.T) {
	for _, name := range []string{"gs://bucket/key", "s3://bucket/key"} {
		if err := store.Check(name); errors.As(err, new(*param.Error)) { // other errors are the account's
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"endpoint", "dry_run", "staging_location"} {
		if flag.Lookup(name) == nil {
			t.Errorf("no runner has defined the flag %s", name)
		}
	}
}
