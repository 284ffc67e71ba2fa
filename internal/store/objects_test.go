package store

import (
	"bytes"
	"context"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"minsep/internal/must"
)

// memory is a service that keeps objects in memory and has the faults that it is told.
type memory struct {
	sync.Mutex
	objects map[string]memoryObject
	serial  int
	// fault is asked before and after a request is done: an error is the answer.
	fault    func(op string, done bool) error
	requests map[string]int
	wrong    int // reads whose last byte is to be wrong
	short    int // reads that end early
}

type memoryObject struct {
	data []byte
	Object
}

var errBusy = errors.New("503 busy")

func (m *memory) request(op string, do func() error) error {
	m.Lock()
	defer m.Unlock()
	m.requests[op]++
	if m.fault != nil {
		if err := m.fault(op, false); err != nil {
			return err
		}
	}
	err := do()
	if m.fault != nil && err == nil {
		err = m.fault(op, true)
	}
	return err
}

func (m *memory) Temporary(err error) bool { return errors.Is(err, errBusy) }

func (m *memory) Stat(_ context.Context, _, key string) (o Object, err error) {
	err = m.request("stat", func() error {
		found, ok := m.objects[key]
		if !ok {
			return fs.ErrNotExist
		}
		o = found.Object
		return nil
	})
	return o, err
}

func (m *memory) Read(_ context.Context, _, key string, o Object, at int64, dst []byte) (n int, err error) {
	err = m.request("read", func() error {
		found := m.objects[key]
		if found.Version != o.Version {
			return ErrCondition
		}
		n = copy(dst, found.data[at:])
		if m.short > 0 {
			m.short--
			n /= 2
			return io.ErrUnexpectedEOF
		}
		if m.wrong > 0 {
			m.wrong--
			dst[n-1]++
		}
		return nil
	})
	return n, err
}

func (m *memory) List(_ context.Context, _, prefix, token string) (p Page, err error) {
	err = m.request("list", func() error {
		var all []string
		for k := range m.objects {
			rest, ok := strings.CutPrefix(k, prefix)
			if !ok {
				continue
			}
			name, _, folder := strings.Cut(rest, "/")
			if name = prefix + name; folder {
				name += "/"
			}
			if name > token && !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
		slices.Sort(all)
		if len(all) > 2 {
			all = all[:2]
			p.Next = all[1]
		}
		for _, name := range all {
			if strings.HasSuffix(name, "/") {
				p.Folders = append(p.Folders, name)
			} else {
				p.Keys = append(p.Keys, name)
			}
		}
		return nil
	})
	return p, err
}

func (m *memory) put(key string, data []byte, c Condition) error {
	old, there := m.objects[key]
	if c.New && there || c.Replaces != "" && c.Replaces != old.Version {
		return ErrCondition
	}
	m.serial++
	sum := crc32.Checksum(data, castagnoli)
	m.objects[key] = memoryObject{bytes.Clone(data), Object{Size: int64(len(data)), Version: strconv.Itoa(m.serial), Writer: c.Writer, CRC32C: &sum}}
	return nil
}

func (m *memory) Put(_ context.Context, _, key string, data []byte, c Condition) error {
	return m.request("put", func() error { return m.put(key, data, c) })
}

func (m *memory) Delete(_ context.Context, _, key string) error {
	return m.request("delete", func() error { delete(m.objects, key); return nil })
}

type memoryUpload struct {
	m     *memory
	key   string
	c     Condition
	parts map[int][]byte
}

func (m *memory) Upload(_ context.Context, _, key string, c Condition) (u Upload, err error) {
	err = m.request("upload", func() error { u = &memoryUpload{m, key, c, map[int][]byte{}}; return nil })
	return u, err
}

func (u *memoryUpload) Part(_ context.Context, n int, data []byte) error {
	return u.m.request("part", func() error { u.parts[n] = bytes.Clone(data); return nil })
}

func (u *memoryUpload) Complete(context.Context) error {
	return u.m.request("complete", func() error {
		var all []byte
		for n := range len(u.parts) {
			all = append(all, u.parts[n+1]...)
		}
		return u.m.put(u.key, all, u.c)
	})
}

func (u *memoryUpload) Abort(context.Context) error {
	return u.m.request("abort", func() error { return nil })
}

var quick = Limits{Attempts: 4, Wait: time.Microsecond}

func newMemory() (*Objects, *memory) {
	m := &memory{objects: map[string]memoryObject{}, requests: map[string]int{}}
	return &Objects{Scheme: "mem", Service: m, Limits: quick}, m
}

func write(o *Objects, name string, opt Options, data []byte) error {
	return o.Write(context.Background(), name, opt, func(w io.Writer) error { _, err := w.Write(data); return err })
}

// TestFaults repeats every kind of request, with the answer lost before and after it was done, as
// often as the limits allow.
func TestFaults(t *testing.T) {
	data := bytes.Repeat([]byte("0123456789"), 9<<20/10)
	for _, done := range []bool{false, true} {
		for _, times := range []int{1, 3, 4} {
			if done && times == 4 {
				continue // a write is found to have been done
			}
			o, m := newMemory()
			count := map[string]int{}
			m.fault = func(op string, after bool) error {
				if after == done && count[op] < times && !(done && op == "stat") { // which a write asks after a lost answer
					count[op]++
					return errBusy
				}
				return nil
			}
			fails := times == quick.Attempts
			step := func(what string, err error) {
				t.Helper()
				if fails != errors.Is(err, errBusy) || !fails && err != nil {
					t.Errorf("%s, done %v, %d times: %v", what, done, times, err)
				}
				clear(count)
				if fails { // once is enough: what follows needs what was to be done
					m.fault, fails = nil, false
				}
			}
			step("put", write(o, "mem://b/small", Options{New: true}, []byte("small")))
			step("upload", write(o, "mem://b/large", Options{New: true}, data))
			f, err := o.Open(context.Background(), "mem://b/large")
			if !done {
				step("open", err)
			}
			got, err := io.ReadAll(Reader(f))
			step("read", err)
			if !bytes.Equal(got, data) {
				t.Error("read other bytes")
			}
			f.Close()
			entries, err := o.List(context.Background(), "mem://b")
			step("list", err)
			if times < 4 && len(entries) != 2 {
				t.Error(entries)
			}
			step("move", o.Move(context.Background(), "mem://b/large", "mem://b/moved"))
			step("remove", o.Remove(context.Background(), "mem://b/moved"))
			step("remove all", o.RemoveAll(context.Background(), "mem://b"))
			if times < 4 && len(m.objects) != 0 {
				t.Error("left", len(m.objects))
			}
		}
	}
}

// TestPages lists and removes a folder that the service gives in several pages.
func TestPages(t *testing.T) {
	o, m := newMemory()
	for _, name := range []string{"a/x", "a/y/z", "a.b", "b", "c", "d"} {
		must.Do(t, write(o, "mem://bucket/run/"+name, Options{}, []byte(name)))
	}
	list, err := o.List(t.Context(), "mem://bucket/run")
	if want := []Entry{{"a", true}, {"a.b", false}, {"b", false}, {"c", false}, {"d", false}}; err != nil || !slices.Equal(list, want) {
		t.Errorf("got %v, %v, want %v", list, err, want)
	}
	if err := o.RemoveAll(t.Context(), "mem://bucket/run"); err != nil || len(m.objects) > 0 {
		t.Errorf("%d objects are left: %v", len(m.objects), err)
	}
}

// TestLostAnswerOfAnother does not take another writer's object for its own.
func TestLostAnswerOfAnother(t *testing.T) {
	o, m := newMemory()
	first := true
	m.fault = func(op string, done bool) error {
		if op == "put" && !done && first {
			first = false
			return errors.Join(errBusy, m.put("x", []byte("theirs"), Condition{Writer: "another"}))
		}
		return nil
	}
	if err := write(o, "mem://b/x", Options{New: true}, []byte("ours")); !errors.Is(err, fs.ErrExist) {
		t.Error(err)
	}
}

func TestWrongAndShortReads(t *testing.T) {
	ctx := context.Background()
	o, m := newMemory()
	small := []byte("a whole object has a checksum")
	must.Do(t, write(o, "mem://b/x", Options{}, small))
	get := func() ([]byte, error) {
		f, err := o.Open(ctx, "mem://b/x")
		if err != nil {
			return nil, err
		}
		defer f.Close()
		b := make([]byte, f.Size())
		_, err = f.ReadAt(b, 0)
		return b, err
	}
	m.wrong, m.short = 2, 1
	if got, err := get(); err != nil || !bytes.Equal(got, small) {
		t.Errorf("%q, %v", got, err)
	}
	m.wrong = 100
	if _, err := get(); !errors.Is(err, errCorrupt) {
		t.Error(err)
	}
	m.wrong, m.short = 0, 100
	if _, err := get(); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Error(err)
	}
}

// TestReadAhead counts requests: a reader that goes through takes each block once, one that jumps
// takes no more than it needs.
func TestReadAhead(t *testing.T) {
	o, m := newMemory()
	const blocks = 40
	must.Do(t, write(o, "mem://b/x", Options{}, make([]byte, blocks*blockSize)))
	f := must.Get(o.Open(context.Background(), "mem://b/x"))(t)
	defer f.Close()
	must.Get(io.Copy(io.Discard, struct{ io.Reader }{Reader(f)}))(t)
	if m.requests["read"] != blocks {
		t.Errorf("%d requests for %d blocks", m.requests["read"], blocks)
	}
	if n := len(f.(*objectFile).blocks); n > maxBlocks {
		t.Errorf("%d blocks are kept", n)
	}
	m.requests["read"] = 0
	for i := int64(0); i < 10; i += 2 {
		must.Get(f.ReadAt(make([]byte, 10), i*blockSize))(t)
	}
	if m.requests["read"] != 5 {
		t.Errorf("%d requests for 5 places", m.requests["read"])
	}
}

// TestTimeouts runs on a clock that goes on only when everything waits, so that the limits hold to
// the microsecond.
func TestTimeouts(t *testing.T) { synctest.Test(t, testTimeouts) }

func testTimeouts(t *testing.T) {
	limits := Limits{Attempts: 3, Attempt: 10 * time.Millisecond, Wait: time.Microsecond}
	attempts := 0
	hang := func(ctx context.Context, _ int) error { attempts++; <-ctx.Done(); return errors.New("cut off") }
	never := func(error) bool { return false }
	begin := time.Now()
	took := func() time.Duration {
		d := time.Since(begin)
		begin = time.Now()
		return d.Round(100 * time.Microsecond)
	}
	if err := limits.repeat(t.Context(), never, hang); !errors.Is(err, context.DeadlineExceeded) || attempts != 3 {
		t.Errorf("%d attempts: %v", attempts, err)
	}
	if d := took(); d != 30*time.Millisecond {
		t.Errorf("three attempts of 10 ms took %v", d)
	}
	limits.Total = 15 * time.Millisecond
	attempts = 0
	if err := limits.repeat(t.Context(), never, hang); !errors.Is(err, context.DeadlineExceeded) || attempts != 2 {
		t.Errorf("%d attempts: %v", attempts, err)
	}
	if d := took(); d != limits.Total {
		t.Errorf("attempts took %v, the limit is %v", d, limits.Total)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(5*time.Millisecond, cancel)
	if err := (Limits{}).repeat(ctx, never, hang); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if d := took(); d != 5*time.Millisecond {
		t.Errorf("it ended %v after the beginning, and was cancelled after 5 ms", d)
	}
	if err := (Limits{}).repeat(t.Context(), never, func(context.Context, int) error { return fs.ErrPermission }); !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
	if d := took(); d != 0 {
		t.Errorf("an error that lasts was repeated for %v", d)
	}
}
