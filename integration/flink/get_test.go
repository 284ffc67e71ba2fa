package flink

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"minsep/internal/must"
)

// TestGetWaits: a JobManager that is slow is waited for, whatever the time, until its process or
// the caller's context ends.
func TestGetWaits(t *testing.T) {
	asked, answer := make(chan bool), make(chan bool)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- true
		select {
		case <-answer:
			io.WriteString(w, `{"slots-total": 3}`)
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	at := must.Get(url.Parse(server.URL))(t)
	for _, c := range []struct {
		about string
		do    func(stop context.CancelFunc, ended chan struct{})
		fails bool
	}{
		{"it answers", func(context.CancelFunc, chan struct{}) { answer <- true }, false},
		{"it ends", func(_ context.CancelFunc, ended chan struct{}) { close(ended) }, true},
		{"the caller stops", func(stop context.CancelFunc, _ chan struct{}) { stop() }, true},
	} {
		ctx, stop := context.WithCancel(t.Context())
		manager := &process{ended: make(chan struct{})}
		k := &Cluster{rest: at.Port(), processes: map[string]*process{"jobmanager": manager}}
		result := make(chan error)
		go func() { _, err := k.overview(ctx); result <- err }()
		<-asked
		c.do(stop, manager.ended)
		if err := <-result; (err != nil) != c.fails {
			t.Errorf("%s: %v", c.about, err)
		}
		stop()
	}
}
