package quorum

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// allKeys is the right to lockrun's keys.
const allKeys = "~lockrun:*"

// trial is a command that needs one right.
type trial struct {
	right string
	cmd   redis.Cmder
}

// rights tries each right by itself, so that all that are missing are named at
// once. The keys are this patient's own.
func (p *patient) rights(ctx context.Context) error {
	name := fmt.Sprintf("%s.%d", p.probe, p.index)
	lock, wake := lockKey(name), wakeKey(name)
	const value = "doctor"
	refused, err := p.try(ctx, func(pipe redis.Pipeliner) []trial {
		return []trial{
			{"+set", pipe.SetNX(ctx, lock, value, probeLife)},
			{"+get", pipe.Get(ctx, lock)},
			{"+pttl", pipe.PTTL(ctx, lock)},
			{"+pexpire", pipe.PExpire(ctx, lock, probeLife)},
			{"+eval", pipe.Eval(ctx, "return 1", []string{lock})},
			{"+del", pipe.Del(ctx, lock)},
		}
	})
	if err != nil {
		return err
	}
	switch {
	case slices.Contains(refused, "+del"):
		// A list that can't be deleted might stay for ever.
		refused = append(refused, "perhaps +rpush +blpop, which can't be tried without +del")
	case !slices.Contains(refused, allKeys):
		more, err := p.try(ctx, func(pipe redis.Pipeliner) []trial {
			return []trial{
				{"+rpush", pipe.RPush(ctx, wake, value)},
				{"+blpop", pipe.Do(ctx, "blpop", wake, 1)},
				{"+del", pipe.Del(ctx, wake)},
			}
		})
		if err != nil {
			return err
		}
		refused = append(refused, more...)
	}
	if len(refused) == 0 {
		p.found.OK("redis rights", "set, renew, delete and wake are allowed")
		return nil
	}
	p.found.Fail("redis rights", "the user lacks %s; grant it, lockrun(1) has the ACL", strings.Join(refused, " "))
	return nil
}

// try sends the trials in one round trip and returns the rights that are refused.
func (p *patient) try(ctx context.Context, fill func(redis.Pipeliner) []trial) ([]string, error) {
	pipe := p.node.client.Pipeline()
	trials := fill(pipe)
	_, err := pipe.Exec(ctx)
	if err := noAnswer(err); err != nil {
		return nil, err
	}
	var refused []string
	add := func(right string) {
		if !slices.Contains(refused, right) {
			refused = append(refused, right)
		}
	}
	for _, t := range trials {
		err := t.cmd.Err()
		switch {
		case errors.Is(err, redis.Nil) || !refuses(err):
		case strings.Contains(strings.ToLower(err.Error()), "permissions to access"): // a key
			add(allKeys)
		default:
			add(t.right)
		}
	}
	return refused, nil
}
