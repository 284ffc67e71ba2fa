package stream_test

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math"
	"math/bits"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"minsep/internal/must"
	"minsep/internal/stream"
)

func testRoot(t testing.TB) stream.Root {
	t.Helper()
	b := make([]byte, stream.RootSize)
	for i := range b {
		b[i] = byte(i + 1)
	}
	r := must.Get(stream.ParseRoot(b))(t)
	return r
}

func testKey(t testing.TB, purpose string) stream.Key {
	return testRoot(t).Key(stream.RunID{0xab}, [32]byte{0xcd}, purpose)
}

// The outputs of this package are frozen: published runs depend on them. Do not change these
// values.
func TestFrozenVectors(t *testing.T) {
	src := stream.NewSource(testKey(t, "vectors"))
	words := func(a stream.Address) string {
		st := src.Stream(a)
		return fmt.Sprintf("%016x %016x %016x", st.Uint64(), st.Uint64(), st.Uint64())
	}
	bulk := make([]uint64, 3)
	stream.NewBulk(testKey(t, "bulk vectors")).Words(bulk, 5, 7)
	chacha := make([]uint64, 3)
	stream.NewChaCha(testKey(t, "chacha vectors")).Words(chacha, 5<<32+6, 7<<34+9)
	commitment := testKey(t, "vectors").Commitment()
	public := stream.NewSource(stream.PublicKey("verify", []byte("{}")))
	for _, v := range []struct{ name, got, want string }{
		{"int 0", words(src.IntAddress(0, 0)), frozen[0]},
		{"int -1 copy 2", words(src.IntAddress(-1, 2)), frozen[1]},
		{"empty string", words(src.BytesAddress([]byte(""), 0)), frozen[2]},
		{"string copy 1", words(src.BytesAddress([]byte("PMID:42"), 1)), frozen[3]},
		{"bulk", fmt.Sprintf("%016x", bulk), frozen[4]},
		{"chacha", fmt.Sprintf("%016x", chacha), frozen[7]},
		{"commitment", hex.EncodeToString(commitment[:8]), frozen[5]},
		{"public", fmt.Sprintf("%016x", public.Stream(public.IntAddress(1, 0)).Uint64()), frozen[6]},
	} {
		if v.got != v.want {
			t.Errorf("%s: got %s, want %s", v.name, v.got, v.want)
		}
	}
}

func TestWordsAreContiguous(t *testing.T) {
	b := stream.NewBulk(testKey(t, "bulk"))
	whole := make([]uint64, 100)
	b.Words(whole, 3, 10)
	for size := range 41 { // a few are encrypted block by block
		part := make([]uint64, size)
		b.Words(part, 3, 10+20)
		for i, w := range part {
			if whole[40+i] != w {
				t.Fatalf("word %d differs between a whole and a part of %d", i, size)
			}
		}
	}
	other := make([]uint64, 100)
	b.Words(other, 4, 10)
	for i := range other {
		if other[i] == whole[i] {
			t.Fatalf("numbers 3 and 4 share word %d", i)
		}
	}
}

func TestResetRepeats(t *testing.T) {
	src := stream.NewSource(testKey(t, "reset"))
	a := src.IntAddress(9, 0)
	st := src.Stream(a)
	first := []uint64{st.Uint64(), st.Uint64(), st.Uint64()}
	st.Reset(a)
	for i, w := range first {
		if got := st.Uint64(); got != w {
			t.Errorf("word %d after Reset: %x, want %x", i, got, w)
		}
	}
}

// falseReject9 is the two-sided normal quantile for a false-reject probability of 1e-9.
const falseReject9 = 6.109

// TestNeighboursAreIndependent counts agreeing bits between streams whose names differ as little as
// they can: copies of one example, and ids that follow each other. Independent words agree in half
// of their bits; the sum over m bits has standard deviation sqrt(m)/2.
func TestNeighboursAreIndependent(t *testing.T) {
	const ids, words = 4000, 8
	address := map[string]func(s *stream.Source, i int) (stream.Address, stream.Address){
		"int copies": func(s *stream.Source, i int) (a, b stream.Address) {
			return s.IntAddress(int64(i), 0), s.IntAddress(int64(i), 1)
		},
		"int neighbours": func(s *stream.Source, i int) (a, b stream.Address) {
			return s.IntAddress(int64(i), 0), s.IntAddress(int64(i)+1, 0)
		},
		"int and string": func(s *stream.Source, i int) (a, b stream.Address) {
			return s.IntAddress(int64(i), 0), s.BytesAddress([]byte(fmt.Sprint(i)), 0)
		},
		"string copies": func(s *stream.Source, i int) (a, b stream.Address) {
			return s.BytesAddress([]byte(fmt.Sprint(i)), 0), s.BytesAddress([]byte(fmt.Sprint(i)), 1)
		},
		"string neighbours": func(s *stream.Source, i int) (a, b stream.Address) {
			return s.BytesAddress([]byte(fmt.Sprint(i)), 0), s.BytesAddress([]byte(fmt.Sprint(i+1)), 0)
		},
	}
	for name, f := range address {
		src := stream.NewSource(testKey(t, "independence"))
		agree := 0
		for i := range ids {
			a, b := f(src, i)
			sa, sb := src.Stream(a), src.Stream(b)
			for range words {
				agree += 64 - bits.OnesCount64(sa.Uint64()^sb.Uint64())
			}
		}
		m := float64(ids * words * 64)
		if dev := math.Abs(float64(agree)-m/2) / (math.Sqrt(m) / 2); dev > falseReject9 {
			t.Errorf("%s: agreeing bits are %.1f standard deviations from half", name, dev)
		}
	}
}

// TestNoSharedWord looks for equal words between all streams of a grid of names: a stream that ran
// into the next would repeat its words. 2^18 random words share one with probability below 2^-29.
func TestNoSharedWord(t *testing.T) {
	seen := make(map[uint64]string)
	for _, purpose := range []string{"a", "b"} {
		src := stream.NewSource(testKey(t, purpose))
		for id := int64(-8); id < 8; id++ {
			for c := range uint32(4) {
				st := src.Stream(src.IntAddress(id, c))
				for j := range 512 {
					w, name := st.Uint64(), fmt.Sprintf("%s/%d/%d/%d", purpose, id, c, j)
					if old, ok := seen[w]; ok {
						t.Fatalf("%s and %s share a word", old, name)
					}
					seen[w] = name
				}
			}
		}
	}
}

func TestKeysDifferByEveryInput(t *testing.T) {
	r := testRoot(t)
	base := r.Key(stream.RunID{1}, [32]byte{1}, "x")
	for name, k := range map[string]stream.Key{
		"run":     r.Key(stream.RunID{2}, [32]byte{1}, "x"),
		"params":  r.Key(stream.RunID{1}, [32]byte{2}, "x"),
		"purpose": r.Key(stream.RunID{1}, [32]byte{1}, "y"),
		"sub":     base.Sub("x"),
		"root":    stream.NewRoot().Key(stream.RunID{1}, [32]byte{1}, "x"),
	} {
		if k.Commitment() == base.Commitment() {
			t.Errorf("another %s gives the same key", name)
		}
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	r := testRoot(t)
	for _, s := range []string{fmt.Sprint(r), fmt.Sprintf("%v %+v %#v %x", r, r, r, r), fmt.Sprintf("%v %#v", testKey(t, "p"), testKey(t, "p"))} {
		if strings.Contains(s, "0102") || strings.Contains(s, "0x1, 0x2") || strings.Contains(s, "1 2 3") {
			t.Errorf("a key printed itself: %s", s)
		}
	}
}

func TestKeyFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "key")
	must.Do(t, stream.CreateKeyFile(path))
	if info, _ := os.Stat(path); info.Mode().Perm() != 0o600 || info.Size() != stream.RootSize {
		t.Errorf("key file has mode %v and %d bytes", info.Mode(), info.Size())
	}
	if _, err := stream.ReadKeyFile(path); err != nil {
		t.Error(err)
	}
	must.Fail(t, "overwriting a key", "never overwritten")(stream.CreateKeyFile(path))
	faults := map[string]func(p string){
		"lets others use it":  func(p string) { os.WriteFile(p, make([]byte, 32), 0o600); os.Chmod(p, 0o640) },
		"exactly 32 bytes":    func(p string) { os.WriteFile(p, make([]byte, 31), 0o600) },
		"key file length 33":  func(p string) { os.WriteFile(p, make([]byte, 33), 0o600) },
		"all bytes are equal": func(p string) { os.WriteFile(p, make([]byte, 32), 0o600) },
		"no such file":        func(string) {},
		"regular file":        func(p string) { os.Mkdir(p, 0o700) },
	}
	for want, make := range faults {
		p := filepath.Join(dir, want)
		make(p)
		must.Fail(t, "", want)(stream.ReadKeyFile(p))
	}
}

// TestKeyOfEqualBytes: what a disk, an eraser or a hand wrote over a key is no key.
func TestKeyOfEqualBytes(t *testing.T) {
	for v := range 256 {
		b := bytes.Repeat([]byte{byte(v)}, stream.RootSize)
		if r, err := stream.ParseRoot(b); err == nil || !reflect.ValueOf(r).IsZero() {
			t.Errorf("32 bytes %d are taken for a key: %v", v, err)
		}
		b[stream.RootSize-1]++
		if _, err := stream.ParseRoot(b); err != nil {
			t.Errorf("31 bytes %d and another one: %v", v, err)
		}
	}
}

func TestRunID(t *testing.T) {
	id := stream.NewRunID()
	back, err := stream.ParseRunID(id.String())
	if err != nil || back != id {
		t.Errorf("got %v, %v back", back, err)
	}
	for _, bad := range []string{"", "12", strings.Repeat("g", 32), strings.Repeat("0", 33)} {
		if _, err := stream.ParseRunID(bad); err == nil {
			t.Errorf("%q was taken for a run id", bad)
		}
	}
}

var frozen = [8]string{
	"7cf807cd5299bbca aed48f56dbcd9351 06403c3723f7e3e6",
	"3e8fc900862fe4d6 5aefd7317d50f44d ad1b21526a04225a",
	"a16d75cfd6437a9b ed5d8bf1e47a9245 1bcad69e3643e995",
	"e6b339e3b5f00925 9561d019fb8d7f05 f44fb2b610c5882f",
	"[fa40d2f5dad46c70 e787a0df36f5da04 91dd3d724d7d070d]",
	"97fbbd0af5431ab1",
	"5c10664cee37557c",
	"[c99998369092d03a ed9f1da9bd5581e0 9f991a075db9f396]",
}
