//go:build !unix

package store

// nonBlocking has no effect: names in a folder cannot be pipes here.
const nonBlocking = 0

// noFollow has no effect: there is no such flag here.
const noFollow = 0
