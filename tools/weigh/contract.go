package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// ours begins the names of the contract's packages.
const ours = "fireonce."

// jobs is the service of a plain caller, and plainly what it calls.
const jobs = protoreflect.FullName("fireonce.v1.JobService")

var plainly = []protoreflect.Name{"ScheduleJob", "GetJob", "ListJobs", "StreamJobEvents", "CancelJob", "ResolveJob"}

// A share is a part of the contract. Entries of maps are no messages.
type share struct {
	files, rpcs, messages, enums, fields int
	goBytes, tsBytes                     int64
}

// weighContract prints what each package of the contract has, by proto/frozen.json; then what is
// generated for the service of jobs, with all that its file imports, and what the six calls of a
// plain caller reach of it.
func weighContract(out io.Writer, checkout string) error {
	files, err := frozen(checkout)
	if err != nil {
		return err
	}
	packages := make(map[string]*share)
	var all share
	for _, file := range files {
		s, err := shareOf(checkout, file)
		if err != nil {
			return err
		}
		name := string(file.Package())
		if packages[name] == nil {
			packages[name] = new(share)
		}
		packages[name].add(s)
		all.add(s)
	}
	caller, reached, err := plain(checkout, files)
	if err != nil {
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tfiles\tRPCs\tmessages\tenums\tfields\tGo, bytes\tTypeScript, bytes\t")
	row := func(name string, s share) {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", name, s.files, s.rpcs, s.messages, s.enums, s.fields, s.goBytes, s.tsBytes)
	}
	for _, name := range slices.Sorted(maps.Keys(packages)) {
		row(name, *packages[name])
	}
	row("all", all)
	row(string(jobs.Name())+" and what it imports", caller)
	row("reached by its six plain calls", reached)
	return w.Flush()
}

func (s *share) add(o share) {
	s.files += o.files
	s.rpcs += o.rpcs
	s.messages += o.messages
	s.enums += o.enums
	s.fields += o.fields
	s.goBytes += o.goBytes
	s.tsBytes += o.tsBytes
}

// frozen returns the files of the contract.
func frozen(checkout string) ([]protoreflect.FileDescriptor, error) {
	text, err := os.ReadFile(filepath.Join(checkout, "proto", "frozen.json"))
	if err != nil {
		return nil, err
	}
	var set descriptorpb.FileDescriptorSet
	// The rules are options that this program does not have.
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(text, &set); err != nil {
		return nil, fmt.Errorf("proto/frozen.json: %w", err)
	}
	registry, err := protodesc.NewFiles(&set)
	if err != nil {
		return nil, fmt.Errorf("proto/frozen.json: %w", err)
	}
	var files []protoreflect.FileDescriptor
	registry.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		if strings.HasPrefix(string(file.Package()), ours) {
			files = append(files, file)
		}
		return true
	})
	return files, nil
}

// shareOf returns what a file has, with the size of the code of its messages and Connect's clients.
func shareOf(checkout string, file protoreflect.FileDescriptor) (share, error) {
	s := share{files: 1, enums: file.Enums().Len()}
	for i := range file.Services().Len() {
		s.rpcs += file.Services().Get(i).Methods().Len()
	}
	s.messagesOf(file.Messages())
	options, _ := file.Options().(*descriptorpb.FileOptions)
	pkg := path.Base(options.GetGoPackage())
	name := strings.TrimSuffix(path.Base(file.Path()), ".proto")
	folder := filepath.Join(checkout, "clients", "go", pkg)
	var err error
	if s.goBytes, err = sizeOf(filepath.Join(folder, name+".pb.go"), filepath.Join(folder, pkg+"connect", name+".connect.go")); err != nil {
		return share{}, err
	}
	s.tsBytes, err = sizeOf(filepath.Join(checkout, "gen", "ts", strings.TrimSuffix(file.Path(), ".proto")+"_pb.ts"))
	return s, err
}

func (s *share) messagesOf(list protoreflect.MessageDescriptors) {
	for i := range list.Len() {
		if m := list.Get(i); !m.IsMapEntry() {
			s.messages++
			s.enums += m.Enums().Len()
			s.fields += m.Fields().Len()
			s.messagesOf(m.Messages())
		}
	}
}

// sizeOf returns the size of files together. A file without a service has no client.
func sizeOf(names ...string) (sum int64, err error) {
	for _, name := range names {
		info, err := os.Stat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(name, ".connect.go"):
		case err != nil:
			return 0, err
		default:
			sum += info.Size()
		}
	}
	return sum, nil
}

// plain returns what is generated for the service of jobs, and what its plain calls reach.
func plain(checkout string, files []protoreflect.FileDescriptor) (caller, reached share, err error) {
	for _, file := range files {
		service := file.Services().ByName(jobs.Name())
		if service == nil || service.FullName() != jobs {
			continue
		}
		need := make(map[string]protoreflect.FileDescriptor)
		imports(file, need)
		for _, f := range need {
			s, err := shareOf(checkout, f)
			if err != nil {
				return share{}, share{}, err
			}
			caller.add(s)
		}
		seen := make(map[protoreflect.FullName]bool)
		for _, name := range plainly {
			m := service.Methods().ByName(name)
			if m == nil {
				return share{}, share{}, fmt.Errorf("%s has no %s", jobs, name)
			}
			reached.rpcs++
			reached.reach(m.Input(), seen)
			reached.reach(m.Output(), seen)
		}
		return caller, reached, nil
	}
	return share{}, share{}, fmt.Errorf("the contract has no %s", jobs)
}

// imports collects a file and the contract's files that it imports.
func imports(file protoreflect.FileDescriptor, need map[string]protoreflect.FileDescriptor) {
	if need[file.Path()] != nil || !strings.HasPrefix(string(file.Package()), ours) {
		return
	}
	need[file.Path()] = file
	for i := range file.Imports().Len() {
		imports(file.Imports().Get(i).FileDescriptor, need)
	}
}

// reach counts a message of the contract, and all that its fields have.
func (s *share) reach(m protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) {
	if seen[m.FullName()] || !strings.HasPrefix(string(m.FullName()), ours) {
		return
	}
	seen[m.FullName()] = true
	if !m.IsMapEntry() {
		s.messages++
		s.fields += m.Fields().Len()
	}
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		if f.Message() != nil {
			s.reach(f.Message(), seen)
		}
		if e := f.Enum(); e != nil && !seen[e.FullName()] {
			seen[e.FullName()] = true
			s.enums++
		}
	}
}
