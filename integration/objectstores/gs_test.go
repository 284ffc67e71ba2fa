// Package objectstores tests the clients of object stores against emulators of their services.
package objectstores_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fsouza/fake-gcs-server/fakestorage"

	"minsep/internal/store"
	"minsep/internal/store/gs"
	"minsep/internal/store/storetest"
)

// serveGS runs a service with one bucket and registers it.
func serveGS(t testing.TB, faults *storetest.Faults, limits store.Limits) {
	fake, err := fakestorage.NewServerWithOptions(fakestorage.Options{NoListener: true, Writer: nil})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fake.Stop)
	fake.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: "bucket"})
	faults.Service = fake.HTTPHandler()
	server := httptest.NewServer(faults)
	t.Cleanup(server.Close)
	t.Setenv("STORAGE_EMULATOR_HOST", strings.TrimPrefix(server.URL, "http://"))
	objects, err := gs.New(context.Background(), limits)
	if err != nil {
		t.Fatal(err)
	}
	store.Register("gs", func() (store.FS, error) { return objects, nil })
}

func TestGS(t *testing.T) {
	storetest.Client{
		Scheme: "gs",
		Serve:  func(t *testing.T, f *storetest.Faults, l store.Limits) { serveGS(t, f, l) },
		Kinds:  []string{storetest.Busy, storetest.Lost, storetest.Reset, storetest.Hang, storetest.Truncated, storetest.Short, storetest.Wrong, storetest.Throttled, storetest.Another},
	}.Test(t)
}
