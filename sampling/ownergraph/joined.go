package ownergraph

import (
	"bytes"
	"sort"
)

// JoinedOwners counts the owner ids that look like several ids in one cell, such as "7;9": if they
// are divided at ";", "|" or ",", some part is an owner of its own. No bound holds for the people
// in such cells.
func (g *Graph) JoinedOwners() (count int) {
	if g.Owners.Type != String {
		return 0
	}
	for i := range g.Owners.Len() {
		if id := g.Owners.Bytes(i); bytes.ContainsAny(id, ";|,") && g.isJoined(id) {
			count++
		}
	}
	return count
}

// isJoined reports whether a part of a divided id is an owner of the graph.
func (g *Graph) isJoined(id []byte) bool {
	return anyPart(id, func(part []byte) bool {
		at := sort.Search(g.Owners.Len(), func(i int) bool { return bytes.Compare(g.Owners.Bytes(i), part) >= 0 })
		return at < g.Owners.Len() && bytes.Equal(g.Owners.Bytes(at), part)
	})
}

// anyPart reports whether holds is true of a part of a cell that is divided. Brackets, quotes and
// blanks around a part, as programs print lists, are left out.
func anyPart(id []byte, holds func(part []byte) bool) bool {
	for _, part := range bytes.FieldsFunc(id, func(r rune) bool { return r == ';' || r == '|' || r == ',' }) {
		part = bytes.Trim(part, " \t\"'[](){}")
		if len(part) < len(id) && holds(part) {
			return true
		}
	}
	return false
}

// mostScanned is the number of ids of each kind that a JoinedScan keeps.
const mostScanned = 1 << 16

// JoinedScan looks for joined ids, as [Graph.JoinedOwners] does, in a graph that is read once and
// not held. It keeps the first ids only, so that it may miss some. The zero value has seen nothing.
type JoinedScan struct {
	Found  bool
	single map[string]bool // ids that are not divided
	parts  map[string]bool // of ids that are
}

// Add looks at further owners.
func (s *JoinedScan) Add(owners *IDs) {
	if s.Found || owners.Type != String {
		return
	}
	if s.single == nil {
		s.single, s.parts = map[string]bool{}, map[string]bool{}
	}
	for i := range owners.Len() {
		id := owners.Bytes(i)
		if !bytes.ContainsAny(id, ";|,") {
			if len(s.single) < mostScanned {
				s.single[string(id)] = true
			}
			s.Found = s.parts[string(id)]
		} else {
			s.Found = anyPart(id, func(part []byte) bool {
				if len(s.parts) < mostScanned {
					s.parts[string(part)] = true
				}
				return s.single[string(part)]
			})
		}
		if s.Found {
			return
		}
	}
}
