package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// keyed is one record of a long computation in a file, known by its key.
type keyed interface{ key() string }

// resume returns all, each completed by find. Records that the file has are taken from it; the
// others are found with all processors, in order, and each is appended when it is known.
// Progress and the time taken go to w. Where ctx ends, the known records are returned with the
// context's error.
func resume[T keyed](ctx context.Context, file string, all []T, find func(context.Context, T) (T, error), w io.Writer) ([]T, error) {
	done, err := readRecords[T](file)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var mu sync.Mutex
	var group sync.WaitGroup
	var fault error
	known := 0
	for _, t := range all {
		if _, ok := done[t.key()]; ok {
			known++
		}
	}
	next := make(chan T)
	for range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for t := range next {
				t, err := find(ctx, t)
				mu.Lock()
				if err == nil {
					var line []byte
					if line, err = json.Marshal(t); err == nil {
						_, err = f.Write(append(line, '\n'))
					}
				}
				if err == nil {
					done[t.key()] = t
					known++
					fmt.Fprintf(w, "%d of %d: %s; %.0f s of processor time in this run\n", known, len(all), t.key(), cpuTime().Seconds())
				} else if ctx.Err() == nil {
					fault = errors.Join(fault, fmt.Errorf("%s: %w", t.key(), err))
				}
				mu.Unlock()
			}
		})
	}
	for _, t := range all {
		mu.Lock()
		_, ok := done[t.key()]
		stop := fault != nil || ctx.Err() != nil
		mu.Unlock()
		if stop {
			break
		}
		if !ok {
			next <- t
		}
	}
	close(next)
	group.Wait()
	if fault != nil {
		return nil, fault
	}
	var list []T
	for _, t := range all {
		if t, ok := done[t.key()]; ok {
			list = append(list, t)
		}
	}
	return list, ctx.Err()
}

// readRecords reads the whole lines of a file, and cuts off the rest: a torn line, as when the
// machine stopped, counts for nothing.
func readRecords[T keyed](file string) (map[string]T, error) {
	done := map[string]T{}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return done, nil
	}
	if err != nil {
		return nil, err
	}
	whole := text[:bytes.LastIndexByte(text, '\n')+1]
	for line := range bytes.Lines(whole) {
		var t T
		if err := json.Unmarshal(line, &t); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		done[t.key()] = t
	}
	if len(whole) < len(text) {
		err = os.Truncate(file, int64(len(whole)))
	}
	return done, err
}

// cpuTime is the processor time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
