package store

import (
	"bytes"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDirectWrites fills files of many sizes in pieces: small ones, large ones past the cache, and
// such as the file system refuses to write past it.
func TestDirectWrites(t *testing.T) {
	rng := rand.NewChaCha8([32]byte{1})
	for _, size := range []int{0, 1, 1<<18 - 1, 1 << 18, 1<<20 - 1, 1 << 20, 1<<20 + 4096, 3<<20 + 17, 5 << 20} {
		for _, piece := range []int{1 << 18, 1<<17 + 3, 1 << 20, 2<<20 + 1<<19 + 5} {
			want := make([]byte, size)
			rng.Read(want)
			path := filepath.Join(t.TempDir(), "file")
			f, err := os.Create(path)
			if err != nil {
				t.Fatal(err)
			}
			isDirect := func() bool {
				flags, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
				return err == nil && flags&unix.O_DIRECT != 0
			}
			setDirect(f, true)
			possible := isDirect()
			setDirect(f, false)
			err = fill(f, int64(size), func(out io.Writer) error {
				for rest := want; len(rest) > 0; {
					n := min(len(rest), piece)
					if written, err := out.Write(rest[:n]); written != n || err != nil {
						t.Fatalf("size %d: wrote %d of %d, %v", size, written, n, err)
					}
					rest = rest[n:]
				}
				if small := piece <= 1<<18; possible && small && isDirect() != (size >= 1<<20) {
					t.Errorf("size %d in pieces of %d: direct is %v", size, piece, isDirect())
				}
				return nil
			})
			if err != nil {
				t.Fatalf("size %d: %v", size, err)
			}
			f.Close()
			if got, err := os.ReadFile(path); !bytes.Equal(got, want) || err != nil {
				t.Errorf("size %d in pieces of %d: %d bytes, or others, %v", size, piece, len(got), err)
			}
		}
	}
}

// refusing takes a part of the first write and refuses its rest.
type refusing struct {
	bytes.Buffer
	refused bool
}

func (r *refusing) Write(b []byte) (int, error) {
	if r.refused {
		return r.Buffer.Write(b)
	}
	r.refused = true
	n, _ := r.Buffer.Write(b[:3])
	return n, &os.PathError{Op: "write", Path: "file", Err: unix.EINVAL}
}

func TestDirectWriteRefusedAfterPart(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := &refusing{}
	if n, err := (directFile{out, f}).Write([]byte("0123456789")); n != 10 || err != nil || out.String() != "0123456789" {
		t.Errorf("wrote %d, %v: %q", n, err, out)
	}
}
