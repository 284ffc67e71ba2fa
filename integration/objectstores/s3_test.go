package objectstores_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"minsep/integration/objectstores"
	"minsep/internal/manifest"
	"minsep/internal/must"
	"minsep/internal/store"
	"minsep/internal/store/s3"
)

// serveS3 runs a service with one bucket and registers it.
func serveS3(t *testing.T, faults *objectstores.Faults, limits store.Limits) {
	backend := s3mem.New()
	must.Do(t, backend.CreateBucket("bucket"))
	faults.Service = &conditional{service: objectstores.Checksums{Service: gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server()}}
	server := httptest.NewServer(faults)
	t.Cleanup(server.Close)
	for name, value := range map[string]string{"AWS_ENDPOINT_URL": server.URL, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "hidden", "AWS_REGION": "us-east-1", "AWS_CONFIG_FILE": "/nowhere", "AWS_SHARED_CREDENTIALS_FILE": "/nowhere"} {
		t.Setenv(name, value)
	}
	objects := must.Get(s3.New(context.Background(), limits))(t)
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

// TestMaxPartsS3: an object of as many parts as the store takes is written; one of more is refused
// before the part too many is sent, and neither it nor its upload is left. Where the size is known
// nothing is sent.
func TestMaxPartsS3(t *testing.T) {
	const most, part = 2, 8 << 20
	faults := &objectstores.Faults{}
	serveS3(t, faults, objectstores.Limits)
	sent := &partCounter{service: faults.Service}
	faults.Service = sent
	objects, err := s3.New(t.Context(), objectstores.Limits)
	if err != nil {
		t.Fatal(err)
	}
	if objects.MaxParts != 10_000 {
		t.Errorf("%d parts are allowed, S3 takes 10,000", objects.MaxParts)
	}
	objects.MaxParts = most
	for _, size := range []int{most * part, most*part + 1} {
		*sent = partCounter{service: sent.service}
		name := fmt.Sprintf("s3://bucket/%d", size)
		err := objects.Write(t.Context(), name, store.Options{}, func(w io.Writer) error {
			_, err := w.Write(make([]byte, size))
			return err
		})
		_, statErr := objects.Stat(t.Context(), name)
		switch {
		case size == most*part && (err != nil || statErr != nil):
			t.Errorf("%d parts: %v, %v", most, err, statErr)
		case size > most*part && (!errors.Is(err, store.ErrTooLarge) || !errors.Is(statErr, fs.ErrNotExist) || sent.aborted != 1):
			t.Errorf("one byte more: %v; the object: %v; %d uploads taken back", err, statErr, sent.aborted)
		}
		if sent.parts != most {
			t.Errorf("%d bytes: %d parts were sent", size, sent.parts)
		}
	}
	*sent = partCounter{service: sent.service}
	err = objects.Write(t.Context(), "s3://bucket/known", store.Options{Size: most*part + 1}, func(io.Writer) error {
		t.Error("an object whose size is known to be too large is written")
		return nil
	})
	if !errors.Is(err, store.ErrTooLarge) || sent.parts > 0 {
		t.Errorf("a known size: %v, %d parts", err, sent.parts)
	}
}

// partCounter counts the parts that are sent, and the uploads that are taken back.
type partCounter struct {
	service        http.Handler
	parts, aborted int
}

func (c *partCounter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if q := r.URL.Query(); q.Has("uploadId") && r.Method == http.MethodDelete {
		c.aborted++
	} else if q.Has("partNumber") {
		c.parts++
	}
	c.service.ServeHTTP(w, r)
}

func TestS3(t *testing.T) {
	objectstores.Client{
		Scheme: "s3",
		Serve:  serveS3,
		Kinds:  []string{objectstores.Busy, objectstores.Lost, objectstores.Reset, objectstores.Hang, objectstores.Truncated, objectstores.Short, objectstores.Wrong, objectstores.Throttled, objectstores.Another},
		Secret: "hidden",
	}.Test(t)
}

// TestCheckedAgain: of a file that is too large for a checksum of the store, bytes that are changed
// on their way are read again; bytes that are stored so are refused.
func TestCheckedAgain(t *testing.T) {
	for scheme, serve := range map[string]func(*testing.T, *objectstores.Faults, store.Limits){
		"s3": serveS3, "gs": func(t *testing.T, f *objectstores.Faults, l store.Limits) { serveGS(t, f, l) },
	} {
		f := &objectstores.Faults{Kinds: []string{objectstores.Wrong}, Chance: .2, Most: 1}
		serve(t, f, objectstores.Limits)
		dir := scheme + "://bucket/run"
		file := must.Get(manifest.WriteFile(dir, "rows.npy", manifest.SecretFile, func(w io.Writer) error {
			_, err := w.Write(objectstores.Bytes(1, 5<<20))
			return err
		}))(t)
		for range 5 {
			if err := file.Check(t.Context(), dir); err != nil {
				t.Error(err)
			}
		}
		file.SHA256[0]++
		if err := file.Check(t.Context(), dir); !errors.Is(err, manifest.ErrInvalid) {
			t.Errorf("another file is accepted: %v", err)
		}
		if f.Count(objectstores.Wrong) < 2 {
			t.Errorf("%d faults", f.Count(objectstores.Wrong))
		}
	}
}
