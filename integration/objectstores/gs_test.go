// Package objectstores tests the clients of object stores against emulators of their services.
package objectstores_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

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

// BenchmarkReadGS reads 64 MiB from a service whose every answer takes 30 ms, with the requests one
// by one and as a reader has them in flight.
func BenchmarkReadGS(b *testing.B) {
	ctx := context.Background()
	const size = 64 << 20
	serveGS(b, &storetest.Faults{Delay: 30 * time.Millisecond}, storetest.Limits)
	if err := store.WriteFile(ctx, "gs://bucket/x", store.Options{}, make([]byte, size)); err != nil {
		b.Fatal(err)
	}
	for _, c := range []struct {
		name string
		step int64 // of the places that are read from: backwards nothing is read ahead
	}{{"ahead", 1}, {"alone", -1}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(size)
			buf := make([]byte, 1<<20)
			for b.Loop() {
				f, err := store.Open(ctx, "gs://bucket/x")
				if err != nil {
					b.Fatal(err)
				}
				for i := range int64(size >> 20) {
					if c.step < 0 {
						i = size>>20 - 1 - i
					}
					if _, err := f.ReadAt(buf, i<<20); err != nil {
						b.Fatal(err)
					}
				}
				f.Close()
			}
		})
	}
}
