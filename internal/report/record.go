package report

import (
	"fmt"
	"math"
	"strings"
	"time"

	"minsep/internal/accounting"
	"minsep/internal/manifest"
	"minsep/internal/stages"
	"minsep/internal/words"
)

// folders is the section on stages, versions and digests.
func folders(r *Run) *section {
	s := &section{ID: "folders", Title: "Stages, versions and digests"}
	if r.Info != nil {
		s.Facts = append(
			s.Facts,
			Fact{"Run id", r.Info.RunID.String()},
			Fact{"Made by", "minsep " + r.Info.Version},
		)
		if r.Info.Plan != nil {
			s.Facts = append(s.Facts, Fact{"Plan", r.Info.Plan.SHA256.String()})
		}
	}
	if c := r.Certificate; c != nil {
		s.Facts = append(s.Facts, Fact{"Protocol", c.ProtocolSHA256})
	}
	t := table{
		Title: "Stages",
		Columns: []string{
			"stage",
			"result",
			"finished, UTC",
			"since the one before",
			"minsep",
			"files",
			"bytes",
			"SHA-256 of its parameters",
		},
	}
	s.Text = []string{
		"When a stage finished is the date of its index, or of the certificate, on this disk: a copy of the directory may have other dates, and no check depends on them. Where the stages ran one after another, the time since the one before is what a stage took.",
	}
	rows, finished := map[string][]string{}, map[string]time.Time{}
	for _, ix := range r.Indexes {
		bytes := words.Grouped(ix.Bytes)
		if ix.Secret {
			bytes = "secret"
		}
		rows[ix.Folder], finished[ix.Folder] = []string{
			ix.Version,
			fmt.Sprint(ix.Files),
			bytes,
			ix.Params,
		}, ix.Finished
	}
	if c := r.Certificate; c != nil {
		name := manifest.CertificateFile
		if c.Status != accounting.Verified {
			name = manifest.AccountingFile
		}
		rows[name], finished[name] = []string{"–", "–", "–", "–"}, r.Certified
	}
	var before time.Time
	// In the order of the stages; where they did not run in this order, took says nothing.
	for _, stage := range stages.All {
		for _, left := range stage.Results {
			if row := rows[left]; row != nil {
				at := finished[left]
				cells := append([]string{stage.Name, left, date(at), took(before, at)}, row...)
				t.add(cells...)
				before = at
			}
		}
	}
	s.Tables = []table{t}
	return s
}

// took returns the time between two dates, "–" if one is not known or they are not in order.
func took(before, at time.Time) string {
	if before.IsZero() || at.Before(before) {
		return "–"
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
func checks(r *Run) *section {
	s := &section{ID: "checks", Title: "Every check"}
	columns := []string{"where", "check", "what must hold"}
	broken := table{Title: "BROKEN", Columns: columns}
	held := table{Columns: columns, Folded: true}
	for _, f := range r.Report.Folders {
		where := baseOf(f.Folder)
		for _, c := range f.Checks {
			if c.Held {
				held.add(where, c.Name, c.Rule)
			} else {
				broken.add(where, c.Name, c.Rule)
			}
		}
		s.List = append(s.List, f.Notes...)
	}
	held.Title = fmt.Sprintf("%s: open the list", words.Count(len(held.Rows), "passing check"))
	if len(broken.Rows) > 0 {
		s.Tables = append(s.Tables, broken)
	} else {
		held.Title = fmt.Sprintf("All %d checks hold: open the list", len(held.Rows))
	}
	s.Tables = append(s.Tables, held)
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
