package graphio

import (
	"bytes"
	"context"

	"minsep/internal/ownergraph"
)

// ndjsonFormat is of objects of JSON, one a line.
var ndjsonFormat = format{
	name:       NDJSON,
	title:      "NDJSON",
	extensions: []string{".ndjson", ".jsonl", ".json"},
	look:       (*inspected).json,
	part:       func() part { return new(jsonPart) },
}

// jsonPart is a part of a file of NDJSON.
type jsonPart struct {
	textPart
	ExampleColumn string   `json:"example_column"`          // its name
	OwnerColumns  []string `json:"owner_columns,omitempty"` // names; one of them is there
}

func (p *jsonPart) parts(_ context.Context, in *inspected, o *Options) (list []part, err error) {
	for _, r := range p.ranges(in, o) {
		list = append(list, &jsonPart{r, p.ExampleColumn, p.OwnerColumns})
	}
	return list, nil
}

// line parses lines of the file into two columns.
func (p *jsonPart) line(s *Split, examples, owners *ownergraph.IDs) *jsonLine {
	example := jsonColumn{names: []string{p.ExampleColumn}, ids: examples, inFolder: s.FolderExample != ""}
	if s.RowIDs {
		example.names, example.inFolder = nil, true
	}
	return &jsonLine{example: example,
		owner: jsonColumn{names: p.OwnerColumns, ids: owners, inFolder: s.FolderOwner != "", split: s}}
}

func (p *jsonPart) read(s *Split, f File, b *batcher) error {
	return p.eachOf(f, b, func(l *lines) error { return p.readLines(s, l, b) })
}

func (p *jsonPart) readLines(s *Split, l *lines, b *batcher) error {
	var example ownergraph.IDs
	j := p.line(s, &example, &b.Owners)
	// The types of the whole graph were decided when it was opened, by all files together: a part
	// must not decide again.
	j.example.known, j.example.asIs = true, s.ExampleAsIs
	j.owner.known, j.owner.asIs = true, s.OwnerAsIs
	j.example.spelled, j.owner.spelled = &b.spelled[0], &b.spelled[1]
	j.owner.joined = &b.joined
	for {
		text, err := l.next()
		if err != nil {
			return p.end(b, err, l.number+1)
		}
		if len(bytes.TrimSpace(text)) == 0 {
			continue
		}
		example.Reset(s.ExampleType)
		fault := j.parse(text)
		// The parser of a line does not know the line's number.
		for _, c := range []*jsonColumn{&j.example, &j.owner} {
			for _, odd := range c.odd {
				odd.Line = l.number
			}
			c.odd = c.odd[:0]
		}
		switch {
		case fault == nil && s.SingleOwner:
			j.owners = 1
		case fault == nil && s.FolderOwner != "":
			j.owners = 1
			b.Owners.AppendFrom(&b.folder, 0)
		case fault == nil && j.owners == 0 && s.SkipOwnerless:
			b.Ownerless++
		case fault == nil && j.owners == 0:
			fault = &jsonFault{p.OwnerColumns[0], "an example without owners", ownerlessRule}
		}
		if fault != nil {
			if err := b.fault(&Fault{Line: l.number, Column: fault.column, Found: fault.found, Rule: fault.rule}); err != nil {
				return err
			}
			continue
		}
		if s.lacksExamples() {
			b.appendAbsent(&example)
		}
		// An edge has an example and an owner: the two columns of the batch have one length.
		for range j.owners {
			b.Examples.AppendFrom(&example, 0)
		}
		if err := b.full(); err != nil {
			return err
		}
	}
}
