package objectstores

import (
	"bytes"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"time"
)

// Kinds of faults of a service. Answers with Short or Wrong look whole. These two and Another
// affect only reads of an object's contents.
const (
	Busy      = "busy"      // 503, and nothing is done
	Lost      = "lost"      // the request is done, but answered with 503
	Reset     = "reset"     // no answer
	Hang      = "hang"      // no answer for a long time
	Truncated = "truncated" // the connection breaks in the middle of the answer
	Short     = "short"     // half of the requested bytes
	Wrong     = "wrong"     // one byte is wrong
	Throttled = "throttled" // 429, and nothing is done
	Another   = "another"   // the answer has the version of another object
)

const refused = "refused"

// Faults is a service that injects faults into another one.
type Faults struct {
	Service http.Handler
	Kinds   []string
	Chance  float64       // probability of a fault, for each request
	Most    int           // most faults in a row for one method and path; 0: no limit
	Wait    time.Duration // length of a Hang
	Delay   time.Duration // delay of every answer
	Lives   int64         // requests after which all are Busy; 0: no limit
	Refused int64         // number of the request to answer with 400, which nobody repeats; 0: none

	mutex  sync.Mutex
	random *rand.Rand
	row    map[string]int
	count  map[string]int
	served int64
}

// Requests returns the number of requests so far.
func (f *Faults) Requests() int64 {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.served
}

// Live lets the service work for the given number of further requests; 0 means for ever.
func (f *Faults) Live(requests int64) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.served, f.Lives = 0, requests
}

// Refuse makes the service answer the n-th request from now with 400; 0 means none.
func (f *Faults) Refuse(n int64) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.served, f.Refused = 0, n
}

// Count returns the number of faults of a kind so far.
func (f *Faults) Count(kind string) int {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.count[kind]
}

func (f *Faults) draw(r *http.Request) string {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.random == nil {
		f.random, f.row, f.count = rand.New(rand.NewPCG(1, 2)), map[string]int{}, map[string]int{}
	}
	f.served++
	if f.served == f.Refused {
		return refused
	}
	if f.Lives > 0 && f.served > f.Lives {
		return Busy
	}
	at := r.Method + " " + r.URL.Path
	contents := r.Method == http.MethodGet && r.Header.Get("Range") != ""
	kind := ""
	if len(f.Kinds) > 0 {
		kind = f.Kinds[f.random.IntN(len(f.Kinds))]
	}
	if kind == "" || f.random.Float64() >= f.Chance || f.Most > 0 && f.row[at] >= f.Most ||
		(kind == Short || kind == Wrong || kind == Another) && !contents {
		f.row[at] = 0
		return ""
	}
	f.row[at]++
	f.count[kind]++
	return kind
}

func (f *Faults) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind := f.draw(r)
	time.Sleep(f.Delay)
	busy := func() { http.Error(w, "try again", http.StatusServiceUnavailable) }
	switch kind {
	case "":
		f.Service.ServeHTTP(w, r)
		return
	case Busy:
		io.Copy(io.Discard, r.Body)
		busy()
		return
	case refused:
		io.Copy(io.Discard, r.Body)
		http.Error(w, "no", http.StatusBadRequest)
		return
	case Throttled:
		io.Copy(io.Discard, r.Body)
		http.Error(w, "slower", http.StatusTooManyRequests)
		return
	case Reset:
		panic(http.ErrAbortHandler)
	case Hang:
		io.Copy(io.Discard, r.Body) // otherwise the server would not notice that the client leaves
		select {
		case <-r.Context().Done():
		case <-time.After(f.Wait):
		}
		panic(http.ErrAbortHandler)
	}
	answer := httptest.NewRecorder()
	f.Service.ServeHTTP(answer, r)
	if kind == Lost {
		busy()
		return
	}
	body := bytes.Clone(answer.Body.Bytes())
	send := body
	switch kind {
	case Truncated:
		send = body[:len(body)/2]
	case Short:
		body = body[:len(body)/2]
		send = body
	case Wrong:
		if len(body) > 0 {
			body[len(body)/2] ^= 1
		}
	}
	for k, v := range answer.Header() {
		w.Header()[k] = v
	}
	if kind == Another {
		for _, version := range []string{"ETag", "X-Goog-Generation"} {
			if w.Header().Get(version) != "" {
				w.Header().Set(version, map[bool]string{true: `"0"`, false: "1"}[version == "ETag"])
			}
		}
	}
	if r.Method != http.MethodHead {
		w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(answer.Code)
	w.Write(send)
	if len(send) < len(body) {
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}
