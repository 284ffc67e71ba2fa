package parallel

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
)

// Every item has one call, and the first error is the same with any number of workers.
func TestEach(t *testing.T) {
	for _, workers := range []int{-1, 0, 1, 3, 100} {
		calls := make([]atomic.Int32, 50)
		if errs := Each(50, workers, func(i int) error { calls[i].Add(1); return nil }); errors.Join(errs...) != nil {
			t.Errorf("%d workers: %v", workers, errs)
		}
		for i := range calls {
			if n := calls[i].Load(); n != 1 {
				t.Errorf("%d workers: %d calls for %d", workers, n, i)
			}
		}
		errs := Each(50, workers, func(i int) error {
			if i >= 7 {
				return fmt.Errorf("fault %d", i)
			}
			return nil
		})
		if err := cmp.Or(errs...); err == nil || err.Error() != "fault 7" {
			t.Errorf("%d workers: %v", workers, err)
		}
		if failed := len(slices.DeleteFunc(errs, func(err error) bool { return err == nil })); workers > 0 && failed > workers {
			t.Errorf("%d workers began %d calls that failed", workers, failed)
		}
	}
	if errs := Each(0, 3, nil); len(errs) != 0 {
		t.Errorf("no items: %v", errs)
	}
}
