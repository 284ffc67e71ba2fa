package objectstores_test

import (
	"context"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fsouza/fake-gcs-server/fakestorage"

	"minsep/integration/objectstores"
	"minsep/internal/must"
	"minsep/internal/store"
	"minsep/internal/store/gs"
)

// serveGS runs a service with one bucket and registers it.
func serveGS(t testing.TB, faults *objectstores.Faults, limits store.Limits) {
	fake := must.Get(fakestorage.NewServerWithOptions(fakestorage.Options{NoListener: true, Writer: nil}))(t)
	t.Cleanup(fake.Stop)
	fake.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: "bucket"})
	faults.Service = fake.HTTPHandler()
	server := httptest.NewServer(faults)
	t.Cleanup(server.Close)
	t.Setenv("STORAGE_EMULATOR_HOST", strings.TrimPrefix(server.URL, "http://"))
	objects := must.Get(gs.New(context.Background(), limits))(t)
	store.Register("gs", func() (store.FS, error) { return objects, nil })
}

func TestGS(t *testing.T) {
	objectstores.Client{
		Scheme: "gs",
		Serve:  func(t *testing.T, f *objectstores.Faults, l store.Limits) { serveGS(t, f, l) },
		Kinds:  []string{objectstores.Busy, objectstores.Lost, objectstores.Reset, objectstores.Hang, objectstores.Truncated, objectstores.Short, objectstores.Wrong, objectstores.Throttled, objectstores.Another},
	}.Test(t)
}
