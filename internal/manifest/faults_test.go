package manifest

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
)

// TestFaults: the text has the first twenty and the number of the others, and errors.Is finds every
// one.
func TestFaults(t *testing.T) {
	var faults Faults
	faults.add(nil)
	if faults.err() != nil {
		t.Error("a fault where there is none")
	}
	for i := range mostFaults {
		faults.add(fmt.Errorf("fault %d", i))
	}
	if text := faults.err().Error(); strings.Count(text, "\n") != mostFaults-1 || strings.Contains(text, "more") {
		t.Errorf("%q", text)
	}
	faults.add(errors.New("another"), fs.ErrNotExist)
	text := faults.err().Error()
	if !strings.HasPrefix(text, "fault 0\nfault 1\n") || !strings.HasSuffix(text, "fault 19\nand 2 more faults of files of this folder") {
		t.Errorf("%q", text)
	}
	if !errors.Is(faults.err(), fs.ErrNotExist) {
		t.Error("a fault beyond those of the text is lost")
	}
}
