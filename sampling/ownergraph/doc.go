// Package ownergraph holds an example–owner graph in memory: its ids, the greedy bound on how many
// examples an owner keeps, and the neighbourhoods that sharing an owner makes. It is the reference
// that the distributed transforms must equal bit for bit.
//
// Stability: stable.
package ownergraph
