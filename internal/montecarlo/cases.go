package montecarlo

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/param"
)

// caseFile is one case of a file of outputs to evaluate. Which fields a case needs depends on its
// scheme; steps of y are 0-based.
type caseFile struct {
	Scheme     string      `json:"scheme"`
	Start      string      `json:"start"` // "cold" or "warm"
	Steps      int         `json:"n"`
	MinSep     int         `json:"b"`
	Epoch      int         `json:"epoch"` // of epoch_min_sep and rotation
	Prob       float64     `json:"p"`
	ProbCyclic float64     `json:"p_cyclic"`
	Sigma      float64     `json:"sigma"`
	Column     []float64   `json:"c"` // first column of a Toeplitz C, zeros beyond
	Matrix     [][]float64 `json:"C"` // lower triangular, rows
	Examples   int         `json:"k_u"`
	MaxBatch   int         `json:"truncated_batch_size"`
	Counts     [][]int     `json:"rest_batch_sizes"` // a row for each y
	Used       *float64    `json:"rho"`              // of epoch_min_sep: 1 or left out
	Y          [][]float64 `json:"y"`
}

// caseSchemes says, for each scheme name of a case file, how it is accounted and which fields it
// needs besides scheme, n, b, sigma, y and c or C. Rotation has no b, and takes c or C.
var caseSchemes = map[string]struct {
	scheme string
	fields []string
	matrix bool // given by C
}{
	"b_min_sep":                          {BMinSep, []string{"start", "p"}, false},
	"b_min_sep_general_C":                {BMinSep, []string{"start", "p"}, true},
	"b_min_sep_truncated":                {BMinSep, []string{"start", "p", "truncated_batch_size", "rest_batch_sizes"}, false},
	"independent_b_min_sep_two_examples": {BMinSep, []string{"start", "p", "k_u"}, false},
	"epoch_min_sep":                      {EpochMinSep, []string{"epoch"}, false},
	"epoch_min_sep_two_examples":         {EpochMinSep, []string{"epoch", "k_u"}, false},
	"rotation":                           {Rotation, []string{"epoch"}, false},
	"balls_in_bins":                      {BallsInBins, nil, false},
	"cyclic_poisson_shift0":              {CyclicPoisson, []string{"p_cyclic"}, false},
	"cyclic_poisson_random_shift":        {CyclicPoisson, []string{"p_cyclic"}, false},
	"multi_attribution_alg3_thm6.1":      {MultiOwner, []string{"start", "p", "k_u"}, false},
}

// spec turns a case into a Spec without its strategy and the columns of C.
func (c caseFile) spec(has func(field string) bool) (Spec, *likelihood.Columns, error) {
	check := param.Checker{Package: "loss"}
	kind, known := caseSchemes[c.Scheme]
	if !known {
		return Spec{}, nil, &param.Error{Package: "loss", Param: "scheme", Value: c.Scheme, Rule: "must be one of " + fmt.Sprint(sortedSchemes())}
	}
	needed := append([]string{"n", "sigma", "y"}, kind.fields...)
	if kind.scheme == Rotation {
		c.MinSep, kind.matrix = 1, has("C")
	} else {
		needed = append(needed, "b")
	}
	if kind.matrix {
		needed = append(needed, "C")
	} else {
		needed = append(needed, "c")
	}
	for _, field := range needed {
		check.Require(has(field), "field", field, "is needed for "+c.Scheme)
	}
	if slices.Contains(needed, "start") {
		check.Require(c.Start == "cold" || c.Start == "warm", "start", c.Start, "must be cold or warm")
	}
	s := Spec{Scheme: kind.scheme, Steps: c.Steps, MinSep: c.MinSep, Prob: c.Prob, NoiseMultiplier: c.Sigma,
		WarmStart: c.Start == "warm", MaxExamplesPerOwner: c.Examples, MaxBatchSize: c.MaxBatch, Examples: c.MaxBatch}
	switch c.Scheme {
	case "cyclic_poisson_shift0", "cyclic_poisson_random_shift":
		s.Prob, s.WarmStart = c.ProbCyclic, c.Scheme == "cyclic_poisson_random_shift"
	case "balls_in_bins":
		s.Prob, s.WarmStart = 0, false
	case "rotation":
		s.EpochSteps = c.Epoch
	case "epoch_min_sep", "epoch_min_sep_two_examples":
		check.Require(c.Scheme == "epoch_min_sep" || c.Examples == 2, "k_u", c.Examples, "must be 2")
		s.Prob, s.WarmStart, s.EpochSteps = 0, false, c.Epoch
		check.Require(c.Used == nil || *c.Used == 1, "rho", c.Used, "must be 1: no loss is known for slots that are used with a probability")
	case "b_min_sep_truncated":
		check.AtLeast("truncated_batch_size", c.MaxBatch, 1)
		check.Require(len(c.Counts) == len(c.Y), "rest_batch_sizes", len(c.Counts), fmt.Sprintf("must be as many as y, %d", len(c.Y)))
	case "independent_b_min_sep_two_examples":
		check.Require(c.Examples == 2, "k_u", c.Examples, "must be 2")
	case "multi_attribution_alg3_thm6.1":
		check.AtLeast("k_u", c.Examples, 1)
		s.Published = true
	}
	s.checkNumbers(&check)
	for i, y := range c.Y { // before anything of n entries is made
		check.Require(len(y) == c.Steps, fmt.Sprintf("length of y[%d]", i), len(y), fmt.Sprintf("must be n, %d", c.Steps))
	}
	check.Require(len(c.Y) > 0, "y", len(c.Y), "must hold at least one output")
	if err := check.Err(); err != nil {
		return Spec{}, nil, err
	}
	columns := c.columns(&check, kind.matrix)
	if err := check.Err(); err != nil {
		return Spec{}, nil, err
	}
	s.checkColumns(&check, columns)
	if s.exactness(columns.Bands) == Bound {
		if columns.Bands > c.MinSep {
			check.Require(false, "bands", columns.Bands, fmt.Sprintf("must be at most b, %d: above it only bounds are known", c.MinSep))
		} else {
			check.Require(false, "k_u", c.Examples, fmt.Sprintf("is too large for %s with b = %d: the loss of so many examples has only bounds", c.Scheme, c.MinSep))
		}
	}
	return s, columns, check.Err()
}

func sortedSchemes() []string {
	var names []string
	for name := range caseSchemes {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// columns reads c or C.
func (c caseFile) columns(check *param.Checker, matrix bool) *likelihood.Columns {
	if !matrix {
		check.Require(len(c.Column) >= 1 && c.Column[0] > 0, "c", len(c.Column), "must have at least one entry and begin with a positive one")
		return likelihood.Toeplitz(max(c.Steps, 0), c.Column)
	}
	check.Require(len(c.Matrix) == c.Steps, "rows of C", len(c.Matrix), fmt.Sprintf("must be n, %d", c.Steps))
	columns := make([][]float64, len(c.Matrix))
	for i, row := range c.Matrix {
		if len(row) != len(c.Matrix) {
			check.Require(false, fmt.Sprintf("length of row %d of C", i), len(row), fmt.Sprintf("must be n, %d", c.Steps))
			return nil
		}
		check.Require(row[i] > 0, fmt.Sprintf("C[%d][%d]", i, i), row[i], "must be positive")
		for j, v := range row {
			if j > i {
				check.Require(v == 0, fmt.Sprintf("C[%d][%d]", i, j), v, "must be 0: C is lower triangular")
				continue
			}
			columns[j] = append(columns[j], v)
		}
	}
	for j, column := range columns { // zeros at the end are no bands
		for len(column) > 1 && column[len(column)-1] == 0 {
			column = column[:len(column)-1]
		}
		columns[j] = column
	}
	return likelihood.General(columns)
}

// logLoss evaluates every y of a case.
func (c caseFile) logLoss(has func(field string) bool) ([]float64, error) {
	s, columns, err := c.spec(has)
	if err != nil {
		return nil, err
	}
	e := newEvaluator(s, P, columns)
	losses := make([]float64, len(c.Y))
	for i, y := range c.Y {
		if s.MaxBatchSize > 0 {
			losses[i], err = e.LogRatioCounts(y, c.Counts[i])
		} else {
			losses[i], err = e.LogRatio(y)
		}
		if err != nil {
			return nil, fmt.Errorf("y[%d]: %w", i, err)
		}
	}
	return losses, nil
}

// EvaluateCases takes a JSON object with a list "cases" of outputs y and returns it with `log_loss`
// of every case set to the values of ln P(y)/Q(y). Everything else in it is kept as it is. It
// reports the faults of all cases, and a loss that is known as a bound only is refused.
func EvaluateCases(data []byte) ([]byte, error) {
	var file map[string]json.RawMessage
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, fmt.Errorf("must be JSON, an object with a list of cases: %w", err)
	}
	var cases []map[string]json.RawMessage
	if file["cases"] == nil {
		return nil, &param.Error{Package: "loss", Param: "cases", Rule: "must be there: the file is an object with a list of cases"}
	}
	if err := json.Unmarshal(file["cases"], &cases); err != nil {
		return nil, fmt.Errorf("cases: %w", err)
	}
	var faults []error
	for i, fields := range cases {
		losses, err := evaluateCase(fields)
		if err != nil {
			faults = append(faults, fmt.Errorf("case %d: %w", i, err))
			continue
		}
		if fields["log_loss"], err = json.Marshal(losses); err != nil {
			return nil, err
		}
	}
	if faults != nil {
		return nil, errors.Join(faults...)
	}
	var err error
	if file["cases"], err = json.Marshal(cases); err != nil {
		return nil, err
	}
	return json.MarshalIndent(file, "", " ")
}

func evaluateCase(fields map[string]json.RawMessage) ([]float64, error) {
	raw, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	var c caseFile
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, fmt.Errorf("loss: %w", err)
	}
	return c.logLoss(func(field string) bool { return fields[field] != nil && string(fields[field]) != "null" })
}
