package gs_test

import (
	"context"
	"errors"
	"io/fs"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/fsouza/fake-gcs-server/fakestorage"

	"minsep/internal/store"
	"minsep/internal/store/gs"
	"minsep/internal/store/storetest"
)

var limits = store.Limits{Attempts: 8, Wait: time.Millisecond, Attempt: 3 * time.Second, Total: 30 * time.Second}

// serve runs a service with one bucket and registers it.
func serve(t testing.TB, faults *storetest.Faults, limits store.Limits) {
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

func TestConformance(t *testing.T) {
	serve(t, &storetest.Faults{}, limits)
	storetest.Conformance(t, "gs://bucket/root", 41<<20)
}

// TestFaults is the conformance with faults in a third of the requests: the same results.
func TestFaults(t *testing.T) {
	for _, kind := range []string{storetest.Busy, storetest.Lost, storetest.Reset, storetest.Hang, storetest.Truncated, storetest.Short, storetest.Wrong} {
		t.Run(kind, func(t *testing.T) {
			short, large := limits, 9<<20
			switch kind {
			case storetest.Hang:
				short.Attempt, short.Attempts, large = 400*time.Millisecond, 12, 2<<20
			case storetest.Wrong:
				large = 2 << 20 // whole objects have checksums, ranges of larger ones have not
			}
			f := &storetest.Faults{Kinds: []string{kind}, Chance: .3, Most: 2, Wait: 5 * time.Second}
			if kind == storetest.Hang {
				f.Chance = .1
			}
			serve(t, f, short)
			storetest.Conformance(t, "gs://bucket/root", large)
			if f.Count(kind) == 0 {
				t.Error("there was no fault")
			}
		})
	}
}

// TestGivesUp has every request fail: an error within the limits that says so.
func TestGivesUp(t *testing.T) {
	ctx := context.Background()
	serve(t, &storetest.Faults{Kinds: []string{storetest.Busy}, Chance: 1}, store.Limits{Attempts: 3, Wait: time.Millisecond})
	_, open := store.Open(ctx, "gs://bucket/x")
	for _, err := range []error{open, store.WriteFile(ctx, "gs://bucket/x", store.Options{}, []byte("x")), store.RemoveAll(ctx, "gs://bucket/x")} {
		if err == nil || !strings.Contains(err.Error(), "given up after 3 attempts") || !strings.Contains(err.Error(), "gs://bucket/x") {
			t.Error(err)
		}
	}
}

func TestNoBucket(t *testing.T) {
	serve(t, &storetest.Faults{}, limits)
	_, err := store.Open(context.Background(), "gs://another/x")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := store.WriteFile(context.Background(), "gs://another/x", store.Options{}, []byte("x")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := os.Stat("gs:"); err == nil {
		t.Error("a local folder was made")
	}
}

// BenchmarkRead reads 64 MiB from a service whose every answer takes 30 ms, with the requests one by one and as a reader has them in flight.
func BenchmarkRead(b *testing.B) {
	ctx := context.Background()
	const size = 64 << 20
	serve(b, &storetest.Faults{Delay: 30 * time.Millisecond}, limits)
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
