package montecarlo

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"
)

type goldenCase struct {
	Scheme  string    `json:"scheme"`
	Steps   int       `json:"n"`
	MinSep  int       `json:"b"`
	LogLoss []float64 `json:"log_loss"`
}

func readCases(t *testing.T, data []byte) []goldenCase {
	t.Helper()
	var file struct{ Cases []goldenCase }
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	return file.Cases
}

// TestGoldenLosses compares with losses computed elsewhere, by enumeration of all participation
// patterns or in 40 digits.
func TestGoldenLosses(t *testing.T) {
	for name, tolerance := range map[string]float64{"logloss.json": 1e-9, "logloss_two_examples.json": 1e-10, "logloss_large.json": 1e-9, "logloss_epoch.json": 1e-9, "logloss_rotation.json": 1e-9} {
		data, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		filled, err := EvaluateCases(data)
		if err != nil {
			t.Fatal(err)
		}
		want, got := readCases(t, data), readCases(t, filled)
		if len(got) != len(want) || len(want) < 10 && name != "logloss_epoch.json" || len(want) < 6 {
			t.Fatalf("%s: %d cases of %d", name, len(got), len(want))
		}
		for i, c := range want {
			for j, loss := range c.LogLoss {
				if diff := math.Abs(got[i].LogLoss[j] - loss); !(diff <= tolerance) {
					t.Errorf("%s case %d (%s, n = %d, b = %d), y[%d]: %.15g, want %.15g", name, i, c.Scheme, c.Steps, c.MinSep, j, got[i].LogLoss[j], loss)
				}
			}
		}
	}
}

const oneCase = `{"note": {"kept": [1, 2]}, "cases": [
 {"scheme": "b_min_sep", "start": "cold", "n": 2, "b": 1, "p": 0.5, "sigma": 1, "c": [1.0], "y": [[0.5, 0.5]], "mine": "kept too", "big": 12345678901234567890}]}`

func TestEvaluateCasesKeepsTheRest(t *testing.T) {
	out, err := EvaluateCases([]byte(oneCase))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Note  struct{ Kept []int }
		Cases []map[string]json.RawMessage
	}
	if err := json.Unmarshal(out, &file); err != nil {
		t.Fatal(err)
	}
	c := file.Cases[0]
	if len(file.Note.Kept) != 2 || string(c["mine"]) != `"kept too"` || string(c["big"]) != "12345678901234567890" || string(c["log_loss"]) == "" {
		t.Errorf("%s", out)
	}
}

func TestEvaluateCasesRefuses(t *testing.T) {
	for name, c := range map[string]struct{ from, to, want string }{
		"scheme":     {`"b_min_sep"`, `"bminsep"`, "scheme bminsep"},
		"no p":       {`"p": 0.5,`, ``, "field p"},
		"null y":     {`[[0.5, 0.5]]`, `null`, "field y"},
		"short y":    {`[[0.5, 0.5]]`, `[[0.5]]`, "length of y[0] 1"},
		"p above 1":  {`"p": 0.5`, `"p": 1.5`, "prob 1.5"},
		"sigma":      {`"sigma": 1,`, `"sigma": 0,`, "sigma 0"},
		"start":      {`"cold"`, `"tepid"`, "start tepid"},
		"many":       {`"scheme": "b_min_sep", "start": "cold", "n": 2, "b": 1, "p": 0.5,`, `"scheme": "epoch_min_sep", "n": 2, "b": 1, "epoch": 1, "k_u": 3,`, "k_u 3"},
		"negative":   {`[1.0]`, `[1.0, -0.5]`, "no negative entry"},
		"empty c":    {`[1.0]`, `[]`, "c 0"},
		"huge n":     {`"n": 2`, `"n": -2`, "n -2"},
		"text for n": {`"n": 2`, `"n": "2"`, "case 0"},
		"twice":      {`}]}`, `}]} {}`, "after top-level value"},
		"no cases":   {`"cases"`, `"case"`, "list of cases"},
		"overflow":   {`[[0.5, 0.5]]`, `[[1e308, 1e308]]`, "out of range"},
	} {
		if !strings.Contains(oneCase, c.from) {
			t.Fatalf("%s: nothing to replace", name)
		}
		out, err := EvaluateCases([]byte(strings.Replace(oneCase, c.from, c.to, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %s, %v", name, out, err)
		}
	}
}

func FuzzEvaluateCases(f *testing.F) {
	f.Add([]byte(oneCase))
	f.Add([]byte(`{"cases": [{"scheme": "b_min_sep_general_C", "start": "warm", "n": 2, "b": 2, "p": 0.1, "sigma": 1, "C": [[1, 0], [0.5, 1]], "y": [[1, 2]]}]}`))
	f.Add([]byte(`{"cases": [{"scheme": "balls_in_bins", "n": 3, "b": 2, "sigma": 1, "c": [1, 0.5], "y": [[1, 2, 3]]}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := EvaluateCases(data)
		if err != nil {
			return
		}
		for _, c := range readCases(t, out) {
			for _, loss := range c.LogLoss {
				if math.IsNaN(loss) || math.IsInf(loss, 0) {
					t.Errorf("loss %g of %s", loss, data)
				}
			}
		}
	})
}
