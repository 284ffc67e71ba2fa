package ownergraph

import (
	"bytes"
	"sort"
)

// JoinedOwners counts the owner ids that look like several ids in one cell, such as "7;9": divided
// at ";", "|" or "," they have a part that is an owner of its own. No bound holds for the people in
// such cells.
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

func (g *Graph) isJoined(id []byte) bool {
	parts := bytes.FieldsFunc(id, func(r rune) bool { return r == ';' || r == '|' || r == ',' })
	for _, part := range parts {
		part = bytes.Trim(part, " \t\"'[](){}")
		at := sort.Search(g.Owners.Len(), func(i int) bool { return bytes.Compare(g.Owners.Bytes(i), part) >= 0 })
		if at < g.Owners.Len() && bytes.Equal(g.Owners.Bytes(at), part) && len(part) < len(id) {
			return true
		}
	}
	return false
}
