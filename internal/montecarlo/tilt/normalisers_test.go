package tilt

import (
	"encoding/json"
	"math"
	"os"
	"strconv"
	"testing"
)

// normaliserCase is a case of renyi_normalisers.json: ln N_θ by another program, by order θ.
type normaliserCase struct {
	Scheme string             `json:"scheme"`
	Steps  int                `json:"n"`
	MinSep int                `json:"b"`
	Prob   float64            `json:"p"`
	Rate   float64            `json:"p0"`
	Epoch  int                `json:"epoch"`
	Sigma  float64            `json:"sigma"`
	C      []float64          `json:"c"`
	LogN   map[string]float64 `json:"log_N"`
}

// compareNormalisers holds lnN against the cases of the schemes, of which there are at least so
// many values.
func compareNormalisers(t *testing.T, least int, lnN func(c normaliserCase, theta int) float64, schemes ...string) {
	t.Helper()
	data, err := os.ReadFile("testdata/renyi_normalisers.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Cases []normaliserCase }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	compared := 0
	for _, scheme := range schemes {
		for _, c := range file.Cases {
			if c.Scheme != scheme {
				continue
			}
			for order, want := range c.LogN {
				theta, err := strconv.Atoi(order)
				if err != nil {
					t.Fatal(err)
				}
				compared++
				if got := lnN(c, theta); !(math.Abs(got-want) <= 1e-10) {
					t.Errorf("%+v θ=%d: %.14g, want %.14g", c, theta, got, want)
				}
			}
		}
	}
	if compared < least {
		t.Errorf("only %d values were compared", compared)
	}
}
