package mechanism

import (
	"strings"
	"testing"
)

// TestReadAtMost: no more is read of a long file than one byte beyond the limit.
func TestReadAtMost(t *testing.T) {
	for length, fits := range map[int]bool{0: true, 99: true, 100: true, 101: false, 5000: false} {
		r := strings.NewReader(strings.Repeat("0", length))
		data, err := readAtMost(r, 100)
		if (err == nil) != fits || fits && len(data) != length {
			t.Errorf("%d bytes: %d read, %v", length, len(data), err)
		}
		if read := length - r.Len(); read > 101 {
			t.Errorf("%d of %d bytes were read", read, length)
		}
	}
}
