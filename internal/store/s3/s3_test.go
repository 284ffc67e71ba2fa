package s3_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"minsep/internal/store"
	"minsep/internal/store/s3"
	"minsep/internal/store/storetest"
)

// serve runs a service with one bucket and registers it.
func serve(t *testing.T, faults *storetest.Faults, limits store.Limits) {
	backend := s3mem.New()
	if err := backend.CreateBucket("bucket"); err != nil {
		t.Fatal(err)
	}
	faults.Service = &conditional{service: gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()}
	server := httptest.NewServer(faults)
	t.Cleanup(server.Close)
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hidden", "AWS_REGION": "us-east-1", "AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere"} {
		t.Setenv(name, value)
	}
	objects, err := s3.New(context.Background(), limits)
	if err != nil {
		t.Fatal(err)
	}
	store.Register("s3", func() (store.FS, error) { return objects, nil })
}

// conditional adds to the fake what S3 has and it has not: If-None-Match for uploads in parts.
type conditional struct {
	sync.Mutex
	service http.Handler
}

func (c *conditional) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodPost && r.URL.Query().Has("uploadId") {
		c.Lock()
		defer c.Unlock()
		head := httptest.NewRecorder()
		c.service.ServeHTTP(head, httptest.NewRequest(http.MethodHead, r.URL.Path, nil))
		if r.Header.Get("If-None-Match") == "*" && head.Code == http.StatusOK {
			w.WriteHeader(http.StatusPreconditionFailed)
			return
		}
	}
	c.service.ServeHTTP(w, r)
}

// Wrong bytes are not among the faults: the fake keeps no checksums.
func TestClient(t *testing.T) {
	storetest.Client{
		Scheme: "s3",
		Serve:  serve,
		Kinds:  []string{storetest.Busy, storetest.Lost, storetest.Reset, storetest.Hang, storetest.Truncated, storetest.Short},
		Secret: "hidden",
	}.Test(t)
}
