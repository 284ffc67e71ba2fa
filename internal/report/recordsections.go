package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"minsep/internal/accounting"
	"minsep/internal/manifest"
	"minsep/internal/montecarlo"
	"minsep/internal/stages"
	"minsep/internal/words"
)

// directions has the names of the two directions of the hockey-stick divergence: P is with the
// protected unit, Q without.
var directions = map[montecarlo.Direction]string{montecarlo.P: "H(P,Q)", montecarlo.Q: "H(Q,P)"}

// verification is the section on the proof of each direction of each point.
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
	s.Text = []string{"A direction with samples is accepted where their mean is at most what was fixed before the first of them; " +
		"the largest value is the most that one sample can have. A direction without samples has a proven bound in its place. " +
		"H(P,Q) is of the training with the protected unit against that without it, H(Q,P) the other way round."}
	s.Facts = []Fact{{"Failure probability", fmt.Sprintf("%.4g, a part of every δ", c.Points[0].FailureProbability)}}
	for _, a := range c.Assumptions {
		s.List = append(s.List, "Assumed: "+a.Text+" ("+a.Source+").")
	}
	return s
}

// becameOf explains the states of a candidate in words.
var becameOf = map[string]string{
	accounting.StateReleased: "released: the certificate's",
	accounting.StateAccepted: "accepted, and so is one with less noise",
	accounting.StateRejected: "rejected: a mean is above what is accepted",
	accounting.StateUntried:  "not tried: it is needed, or counts, only where those with more noise are accepted",
}

// candidates is the section on the noise multipliers that were tried.
func (r *Run) candidates() *Section {
	if len(r.Candidates) == 0 {
		return nil
	}
	s := &Section{ID: "candidates", Title: "Which noise multipliers were tried", Columns: []string{"σ", "outcome", "direction", "samples", "mean", "accepted up to"}}
	s.Text = []string{"The list was written to the ledger before the first sample, and is tried from the largest down to the first that is rejected; the smallest that is accepted is released. " +
		"A rejected one is no fault: its samples do not prove δ. The failure probability covers the whole list."}
	if !slices.ContainsFunc(r.Candidates, func(o accounting.Outcome) bool { return o.State == accounting.StateReleased }) {
		s.Text = append(s.Text, "None was accepted, so that this ledger gives no certificate.")
	}
	// From the largest, in the order in which they were tried.
	for _, o := range slices.Backward(r.Candidates) {
		if len(o.Verdicts) == 0 {
			s.Rows = append(s.Rows, []string{sixDigits(o.NoiseMultiplier), becameOf[o.State], "", "", "", ""})
		}
		for _, v := range o.Verdicts {
			row := []string{sixDigits(o.NoiseMultiplier), becameOf[o.State], directions[v.Direction], "none", "", ""}
			if v.Samples > 0 {
				row[3], row[4], row[5] = words.Grouped(int64(v.Samples)), number(v.Mean), number(v.Accept)
			} else {
				row[4] = "at most " + number(v.Bound)
			}
			s.Rows = append(s.Rows, row)
		}
	}
	return s
}

// sixDigits writes a noise multiplier in the form of the certificate's.
func sixDigits(v float64) string { return fmt.Sprintf("%.6g", v) }

// folders is the section on stages, versions and digests.
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
	s.Columns = []string{"stage", "result", "finished, UTC", "since the one before", "minsep", "files", "bytes", "SHA-256 of its parameters"}
	s.Text = []string{"When a stage finished is the date of its index, or of the certificate, on this disk: a copy of the directory may have other dates, and no check depends on them. Where the stages ran one after another, the time since the one before is what a stage took."}
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
	// In the order of the stages; where they did not run in this order, took says nothing.
	for _, stage := range stages.All {
		for _, left := range stage.Results {
			if row := rows[left]; row != nil {
				at := finished[left]
				s.Rows = append(s.Rows, append([]string{stage.Name, left, date(at), took(before, at)}, row...))
				before = at
			}
		}
	}
	return s
}

// took returns the time between two dates, "" if one is not known or they are not in order.
func took(before, at time.Time) string {
	if before.IsZero() || at.Before(before) {
		return ""
	}
	return fmt.Sprintf("%.1f s", at.Sub(before).Seconds())
}

// date writes a time to the second, and "not known" for none.
func date(t time.Time) string {
	if t.IsZero() {
		return "not known"
	}
	return t.UTC().Format(time.DateTime)
}

// checks is the section on every check, broken ones first.
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
	// The list is long; it is open only where a reader must see something in it.
	if len(broken) == 0 {
		s.Folded = fmt.Sprintf("All %d checks hold: open the list", len(s.Rows))
	}
	s.Rows = append(broken, s.Rows...)
	return s
}

// power writes a power of two as 2^k, and any other number as it is.
func power(v float64) string {
	if f, k := math.Frexp(v); f == 0.5 {
		return fmt.Sprintf("2^%d", k-1)
	}
	return fmt.Sprintf("%g", v)
}

// baseOf returns the last part of a path, of any system.
func baseOf(path string) string {
	path = strings.TrimRight(path, "/")
	return path[strings.LastIndexAny(path, `/\`)+1:]
}

// data answers further questions of a reader: how many examples are kept, of how many, the expected
// batch size, and the clip norm, as far as the directory knows them.
func (r *Run) data() string {
	var parts []string
	if b := r.Bounded; b != nil {
		parts = append(parts, fmt.Sprintf("%s of %s examples are kept", words.Grouped(b.Kept), words.Grouped(b.Examples)))
	}
	if size := r.batchSize(); size > 0 {
		parts = append(parts, fmt.Sprintf("the expected batch size is %.6g %ss", size, r.participant()))
	}
	if r.Noise != nil && r.Noise.ClipNorm > 0 {
		parts = append(parts, fmt.Sprintf("the clip norm is %g", float64(r.Noise.ClipNorm)))
	}
	if len(parts) == 0 {
		return ""
	}
	return " In this training, " + strings.Join(parts, ", ") + "."
}

// cite is the section of texts for a paper and a model card.
func (r *Run) cite() *Section {
	if r.Certificate == nil || !r.sound() { // nobody is to paste a claim that does not hold
		return nil
	}
	paper, card := r.Certificate.Statement()+r.data(), r.Certificate.ModelCard()
	for _, f := range []Fact{r.replacement(), r.together()} {
		if f.Value != "" {
			paper += " " + f.Value
			card += fmt.Sprintf("- **%s**: %s\n", f.Name, f.Value)
		}
	}
	return &Section{ID: "cite", Title: "To paste", Text: []string{"For a paper and for a model card."}, Quote: []Quote{{"A paper", paper}, {"A model card", card}}}
}

// replacement states the claim for data of an owner that are replaced by other data, and not by
// zeros. These are two steps of the adjacency, so the claim is (2ε, (1 + e^ε) δ) by group privacy.
// The value is empty if that δ is 1 or more, or if nothing is proven.
func (r *Run) replacement() Fact {
	c := r.Certificate
	delta := (1 + math.Exp(c.Epsilon)) * c.Delta
	if c.Status != accounting.Verified || delta >= 1 {
		return Fact{}
	}
	return Fact{"Replacement", fmt.Sprintf("Where other data take the place of the protected unit's, and not zeros, training is (%g, %s)-differentially private: (2ε, (1 + e^ε)δ), two steps of the adjacency.", 2*c.Epsilon, accounting.RateUp(delta))}
}

// together names the runs from which this one has taken over. The value is empty if there are none,
// or if nothing is proven.
func (r *Run) together() Fact {
	if r.Info == nil || r.Certificate.Status != accounting.Verified || len(r.Info.Earlier) == 0 {
		return Fact{}
	}
	text := "The claim is for this training alone. Its table, strategy or certificate are from " + words.Count(len(r.Info.Earlier), "run") +
		" before, on the same data; minsep compose adds up the claims of several trainings."
	return Fact{"Other trainings", text + " Every training counts of which anything was looked at."}
}
