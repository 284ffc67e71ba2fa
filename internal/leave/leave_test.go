package leave

import (
	"context"
	"errors"
	"testing"
)

func TestBehind(t *testing.T) {
	fault := errors.New("a fault")
	if got, err := Behind(t.Context(), func() (int, error) { return 3, fault }); got != 3 || err != fault {
		t.Errorf("got %d, %v", got, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	begun, release := make(chan bool), make(chan bool)
	defer close(release)
	go func() {
		<-begun
		cancel()
	}()
	got, err := Behind(ctx, func() (int, error) {
		begun <- true
		<-release // only when the test has ended
		return 1, nil
	})
	if got != 0 || !errors.Is(err, context.Canceled) {
		t.Errorf("got %d, %v", got, err)
	}
}
