package server

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/fireonce/fireonce/clients/go/fireoncev1"
	"github.com/fireonce/fireonce/internal/contract"
	"github.com/fireonce/fireonce/store"
)

const (
	nilUUID  = "00000000-0000-0000-0000-000000000000"
	someUUID = "0197a1b2-0000-7000-8000-000000000001"
)

// TestFilterFieldsNarrow: each field of a filter that the contract lets through narrows
// the query, or is refused. An empty value in a query is no condition, and a bulk call
// would take the whole project.
func TestFilterFieldsNarrow(t *testing.T) {
	rules, err := contract.Rules()
	if err != nil {
		t.Fatal(err)
	}
	texts := []string{" ", "\u00a0", "\u3000 ", "\u200b", "@", "<>", `""@""`, "<@>", ",", "aaa", "ann@example.com", nilUUID, someUUID}
	all := store.JobQuery{Project: "p"}
	fields := (&fireoncev1.JobFilter{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		if field.Name() == "connection_keys" || field.Name() == "schedule_key" {
			continue // each is looked up, and one that names nothing is NOT_FOUND
		}
		narrowed := 0
		for _, f := range filtersOf(field, texts) {
			switch found, err := violationsOf(rules, f, true); {
			case err != nil:
				t.Fatal(err)
			case found != nil:
				continue
			}
			q, err := filterFromWire("p", f)
			if err != nil {
				continue
			}
			if narrowed++; reflect.DeepEqual(q, all) {
				t.Errorf("%v selects every job", f)
			}
		}
		if narrowed == 0 {
			t.Errorf("no value of %s was let through", field.Name())
		}
	}
}

// filtersOf makes filters that set one field each.
func filtersOf(field protoreflect.FieldDescriptor, texts []string) (out []*fireoncev1.JobFilter) {
	set := func(do func(m protoreflect.Message)) {
		f := &fireoncev1.JobFilter{}
		do(f.ProtoReflect())
		out = append(out, f)
	}
	add := func(v protoreflect.Value) {
		set(func(m protoreflect.Message) {
			if field.IsList() {
				m.Mutable(field).List().Append(v)
			} else {
				m.Set(field, v)
			}
		})
	}
	messages := func(list ...proto.Message) {
		for _, m := range list {
			add(protoreflect.ValueOfMessage(m.ProtoReflect()))
		}
	}
	switch {
	case field.IsMap():
		for _, v := range append(texts, "") {
			set(func(m protoreflect.Message) {
				m.Mutable(field).Map().Set(protoreflect.ValueOfString("key").MapKey(), protoreflect.ValueOfString(v))
			})
		}
	case field.Kind() == protoreflect.StringKind:
		for _, v := range texts {
			add(protoreflect.ValueOfString(v))
		}
	case field.Kind() == protoreflect.EnumKind:
		for i := range field.Enum().Values().Len() {
			add(protoreflect.ValueOfEnum(field.Enum().Values().Get(i).Number()))
		}
	case field.Message().FullName() == "google.protobuf.Timestamp":
		messages(&timestamppb.Timestamp{}, &timestamppb.Timestamp{Seconds: -62135596800}, &timestamppb.Timestamp{Nanos: 1}, &timestamppb.Timestamp{Seconds: 1e9})
	case field.Message().FullName() == "google.protobuf.Duration":
		messages(&durationpb.Duration{}, &durationpb.Duration{Nanos: 1}, &durationpb.Duration{Seconds: -1}, &durationpb.Duration{Seconds: 1})
	default:
		panic(fmt.Sprintf("no values for %v", field))
	}
	return out
}

// TestBlankNamesAreRefused: the answer names the field.
func TestBlankNamesAreRefused(t *testing.T) {
	for name, f := range map[string]*fireoncev1.JobFilter{
		"recipient":         {Recipient: "\u00a0 "},
		"schedule_id":       {ScheduleId: nilUUID},
		"job_ids[0]":        {JobIds: []string{nilUUID}},
		"connection_ids[0]": {ConnectionIds: []string{nilUUID}},
	} {
		_, err := filterFromWire("p", f)
		var refused *fault
		if !errors.As(err, &refused) || len(refused.violations) != 1 || refused.violations[0].GetField() != "filter."+name {
			t.Errorf("%s: %v", name, err)
		}
	}
}
