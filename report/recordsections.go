package report

import (
	"fmt"
	"math"
	"strings"
	"time"

	"minsep/accounting"
	"minsep/accounting/montecarlo"
	"minsep/internal/words"
	"minsep/manifest"
)

// directions are both directions of the hockey-stick divergence: P is with the protected unit, Q
// without.
var directions = map[montecarlo.Direction]string{montecarlo.P: "H(P,Q)", montecarlo.Q: "H(Q,P)"}

func (r *Run) verification() *Section {
	c := r.Certificate
	if c == nil {
		return nil
	}
	s := &Section{ID: "verification", Title: "How it was verified"}
	s.Columns = []string{"ε", "δ", "direction", "method", "samples", "mean", "accepted up to", "largest value"}
	for _, p := range c.Points {
		for _, v := range p.Directions {
			row := []string{number(p.Epsilon), number(p.Delta), directions[v.Direction], string(v.Method), "none", "", "", number(v.Bound)}
			if v.Samples > 0 {
				row[4], row[5], row[6] = words.Grouped(int64(v.Samples)), number(v.Mean), number(v.Accept)
			}
			s.Rows = append(s.Rows, row)
		}
	}
	s.Facts = []Fact{{"Failure probability", fmt.Sprintf("%.4g, a part of every δ", c.Points[0].FailureProbability)}}
	for _, a := range c.Assumptions {
		s.List = append(s.List, "Assumed: "+a.Text+" ("+a.Source+").")
	}
	return s
}

func (r *Run) folders() *Section {
	s := &Section{ID: "folders", Title: "Stages, versions and digests"}
	if r.Info != nil {
		s.Facts = append(s.Facts, Fact{"Run id", r.Info.RunID.String()}, Fact{"Made by", "minsep " + r.Info.Version})
		if r.Info.Plan != nil {
			s.Facts = append(s.Facts, Fact{"Plan", r.Info.Plan.SHA256.String()})
		}
	}
	if c := r.Certificate; c != nil {
		s.Facts = append(s.Facts, Fact{"Protocol", c.ProtocolSHA256})
	}
	s.Columns = []string{"stage", "left", "finished, UTC", "after the one before", "minsep", "files", "bytes", "SHA-256 of its parameters"}
	s.Text = []string{"When a stage finished is the date of its index, or of the certificate, on this disk: a copy of the directory may have other dates, and no check depends on them. Where the stages ran one after another, the time after the one before is what a stage took."}
	rows, finished := map[string][]string{}, map[string]time.Time{}
	for _, ix := range r.Indexes {
		bytes := words.Grouped(ix.Bytes)
		if ix.Secret {
			bytes = "secret"
		}
		rows[ix.Folder], finished[ix.Folder] = []string{ix.Version, fmt.Sprint(ix.Files), bytes, ix.Params}, ix.Finished
	}
	if c := r.Certificate; c != nil {
		name := manifest.CertificateFile
		if c.Status != accounting.Verified {
			name = manifest.AccountingFile
		}
		rows[name], finished[name] = []string{"", "", "", ""}, r.Certified
	}
	var before time.Time
	for _, stage := range []struct{ name, left string }{{"bound", manifest.BoundedFolder}, {"strategy", manifest.StrategyFolder}, {"account", manifest.CertificateFile},
		{"account", manifest.AccountingFile}, {"form", manifest.BatchesFolder}, {"materialize", manifest.MaterializedFolder}, {"noise", manifest.NoiseFolder}} {
		if row := rows[stage.left]; row != nil {
			at := finished[stage.left]
			s.Rows = append(s.Rows, append([]string{stage.name, stage.left, date(at), took(before, at)}, row...))
			before = at
		}
	}
	return s
}

// took is the time between two dates; "" where one is not known, or the later one is the first.
func took(before, at time.Time) string {
	if before.IsZero() || at.Before(before) {
		return ""
	}
	return fmt.Sprintf("%.1f s", at.Sub(before).Seconds())
}

// date is a time to the second; "not known" for none.
func date(t time.Time) string {
	if t.IsZero() {
		return "not known"
	}
	return t.UTC().Format(time.DateTime)
}

func (r *Run) checks() *Section {
	s := &Section{ID: "checks", Title: "Every check", Columns: []string{"", "where", "check", "what must hold"}}
	broken := [][]string{}
	for _, f := range r.Report.Folders {
		where := baseOf(f.Folder)
		for _, c := range f.Checks {
			row := []string{"holds", where, c.Name, c.Rule}
			if !c.Held {
				row[0] = "BROKEN"
				broken = append(broken, row)
				continue
			}
			s.Rows = append(s.Rows, row)
		}
		s.List = append(s.List, f.Notes...)
	}
	if len(broken) == 0 {
		s.Folded = fmt.Sprintf("All %d checks hold: open the list", len(s.Rows))
	}
	s.Rows = append(broken, s.Rows...)
	return s
}

// power writes a power of two as one.
func power(v float64) string {
	if f, k := math.Frexp(v); f == 0.5 {
		return fmt.Sprintf("2^%d", k-1)
	}
	return fmt.Sprintf("%g", v)
}

func baseOf(path string) string {
	path = strings.TrimRight(path, "/")
	return path[strings.LastIndexAny(path, `/\`)+1:]
}

func (r *Run) cite() *Section {
	if r.Certificate == nil {
		return nil
	}
	return &Section{ID: "cite", Title: "To paste", Text: []string{"For a paper and for a model card."},
		Quote: []Quote{{"A paper", r.Certificate.Statement()}, {"A model card", r.Certificate.ModelCard()}}}
}
