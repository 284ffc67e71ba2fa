package store

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// TestFileWriter writes files of many sizes in pieces of many sizes: small ones, large ones past the
// cache, and such as the file system refuses to write past it, since their buffer begins at no page.
func TestFileWriter(t *testing.T) {
	rng := rand.NewChaCha8([32]byte{1})
	random := rand.New(rng)
	for _, size := range []int{0, 1, 4096, 1<<18 - 1, 1 << 18, 1<<20 - 1, 1 << 20, 1<<20 + 4096, 3<<20 + 17} {
		for _, odd := range []bool{false, true} {
			want := make([]byte, size)
			rng.Read(want)
			path := filepath.Join(t.TempDir(), "file")
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			w := newFileWriter(f, int64(size))
			if odd {
				w.buffer = w.buffer[1:]
			}
			for rest := want; len(rest) > 0; {
				n := min(len(rest), 1+random.IntN(1<<19))
				if written, err := w.Write(rest[:n]); written != n || err != nil {
					t.Fatalf("size %d: wrote %d of %d, %v", size, written, n, err)
				}
				rest = rest[n:]
			}
			if err := w.flush(); err != nil {
				t.Fatalf("size %d: %v", size, err)
			}
			f.Close()
			if got, err := os.ReadFile(path); !bytes.Equal(got, want) || err != nil {
				t.Errorf("size %d, odd %v: %d bytes, or others, %v", size, odd, len(got), err)
			}
		}
	}
}
