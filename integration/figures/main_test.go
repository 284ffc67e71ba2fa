package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestFigures: the pictures in docs are those that the program draws.
func TestFigures(t *testing.T) {
	for name, figure := range figures {
		var drawn bytes.Buffer
		if err := write(&drawn, figure); err != nil {
			t.Fatal(err)
		}
		kept, err := os.ReadFile(filepath.Join("../../docs/figures", name))
		if err != nil || !bytes.Equal(kept, drawn.Bytes()) {
			t.Errorf("docs/figures/%s differs (%v): run go run ./integration/figures docs/figures", name, err)
		}
	}
}
