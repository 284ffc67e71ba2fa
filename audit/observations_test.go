package audit

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestObjectsAreRefused: what NumPy writes of rows of different lengths has a message of its own.
func TestObjectsAreRefused(t *testing.T) {
	dict := "{'descr': '|O', 'fortran_order': False, 'shape': (3,), }" + strings.Repeat(" ", 61) + "\n"
	var b bytes.Buffer
	b.WriteString("\x93NUMPY\x01\x00")
	binary.Write(&b, binary.LittleEndian, uint16(len(dict)))
	b.WriteString(dict + "\x80\x03cnumpy.core.multiarray\n")
	path := filepath.Join(t.TempDir(), "sums.npy")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := ReadObservations(t.Context(), "observations", path, 20)
	for _, words := range []string{"observations " + path, "holds Python objects", "20 numbers", "save numpy.array(sums, dtype=numpy.float64)"} {
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("%v: without %q", err, words)
		}
	}
}

// TestSwapped: likelihood ratios that favour the other side say so, and those of chance do not.
func TestSwapped(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	sample := func(shift float64) (s []float64) {
		for range 2000 {
			s = append(s, rng.NormFloat64()+shift)
		}
		return s
	}
	with, without := sample(0.3), sample(-0.3)
	if swapped(with, without) || !swapped(without, with) || swapped(sample(0), sample(0)) || swapped(sample(0), sample(0.05)) {
		t.Error("swapped")
	}
}
