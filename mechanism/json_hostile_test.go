package mechanism

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"strings"
	"testing"
)

// zeros gives zeros of JSON for ever, and counts them.
type zeros struct{ n int }

func (z *zeros) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = "0,"[(z.n+i)%2]
	}
	z.n += len(b)
	return len(b), nil
}

// A strategy is read as far as a matrix of the steps that it says can reach.
func TestStrategyLongerThanItsSteps(t *testing.T) {
	for _, c := range []struct {
		begin string
		most  int
	}{
		{`{"version":1,"kind":"dense","steps":200,"columns":[[`, 2 << 20},
		{`{"version":1,"kind":"dense","columns":[[1,2]],"steps":200,"toeplitz":[`, 1 << 20},
		{`[[[[`, 1 << 20},
	} {
		endless := new(zeros)
		if _, err := ReadStrategy(io.MultiReader(strings.NewReader(c.begin), endless)); err == nil || !strings.Contains(err.Error(), "longer than a matrix") {
			t.Errorf("%s…: %v", c.begin, err)
		}
		if endless.n > c.most {
			t.Errorf("%s…: %d bytes were read", c.begin, endless.n)
		}
	}
}

// A matrix that is held as a whole, of numbers as long as they get, is read in any layout.
func TestLongStrategyIsRead(t *testing.T) {
	const n = 150
	s := &Strategy{Kind: KindDense, Steps: n}
	for i := range n {
		column := make([]float64, n-i)
		for j := range column {
			column[j] = -math.Nextafter(1e-5, 1) / float64(3*n*n+i+j)
		}
		column[0] = 1
		s.Columns = append(s.Columns, column)
	}
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, b, "", "    "); err != nil {
		t.Fatal(err)
	}
	for _, text := range [][]byte{b, indented.Bytes()} {
		if len(text) < 4*headSize {
			t.Fatalf("%d bytes are too few", len(text))
		}
		got, err := ReadStrategy(bytes.NewReader(text))
		if err != nil || got.Steps != n || got.Columns[3][5] != s.Columns[3][5] {
			t.Errorf("%d bytes: %v", len(text), err)
		}
	}
}
