package s3_test

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"minsep/internal/store"
	"minsep/internal/store/s3"
	"minsep/internal/store/storetest"
)

var limits = store.Limits{Attempts: 8, Wait: time.Millisecond, Attempt: 3 * time.Second, Total: 30 * time.Second}

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

func TestConformance(t *testing.T) {
	serve(t, &storetest.Faults{}, limits)
	storetest.Conformance(t, "s3://bucket/root", 41<<20)
}

// TestFaults is the conformance with faults in a third of the requests: the same results. Wrong bytes are not among them: the fake keeps no checksums.
func TestFaults(t *testing.T) {
	for _, kind := range []string{storetest.Busy, storetest.Lost, storetest.Reset, storetest.Hang, storetest.Truncated, storetest.Short} {
		t.Run(kind, func(t *testing.T) {
			limits, large := limits, 9<<20
			if kind == storetest.Hang {
				limits.Attempt, limits.Attempts, large = 400*time.Millisecond, 12, 2<<20
			}
			f := &storetest.Faults{Kinds: []string{kind}, Chance: .3, Most: 2, Wait: 5 * time.Second}
			if kind == storetest.Hang {
				f.Chance = .1
			}
			serve(t, f, limits)
			storetest.Conformance(t, "s3://bucket/root", large)
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
	_, open := store.Open(ctx, "s3://bucket/x")
	for _, err := range []error{open, store.WriteFile(ctx, "s3://bucket/x", store.Options{}, []byte("x")), store.RemoveAll(ctx, "s3://bucket/x")} {
		if err == nil || !strings.Contains(err.Error(), "given up after 3 attempts") || !strings.Contains(err.Error(), "s3://bucket/x") {
			t.Error(err)
		} else if strings.Contains(err.Error(), "hidden") {
			t.Error("says the secret:", err)
		}
	}
}

func TestNoBucket(t *testing.T) {
	serve(t, &storetest.Faults{}, limits)
	_, err := store.Open(context.Background(), "s3://another/x")
	if !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := store.WriteFile(context.Background(), "s3://another/x", store.Options{}, []byte("x")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
