package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"connectrpc.com/connect"
	"github.com/urfave/cli/v3"

	"github.com/fireonce/fireonce/clients/go/adminv1"
	"github.com/fireonce/fireonce/store"

	"github.com/fireonce/fireonce/cmd/fireonce/internal/client"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/exit"
	"github.com/fireonce/fireonce/cmd/fireonce/internal/progress"
)

func projectsCommand() *cli.Command {
	return &cli.Command{
		Name:  "projects",
		Usage: "projects: list, erase",
		Description: "A project is made with its first API key (`fireonce apikeys create --new-project`). The server at --server is asked, with\n" +
			"FIREONCE_API_KEY: the operator's key. With --database no server is asked, and the database is opened instead.",
		Commands: []*cli.Command{{
			Name: "list", Usage: "all projects", Flags: accessFlags(), Action: listProjects,
		}, {
			Name: "erase", Usage: "erase what a project has, permanently", ArgsUsage: "PROJECT",
			Description: "Revoke the project's API keys first, and end its open jobs before that. Jobs that ended an hour ago or earlier go;\n" +
				"if others are left, the command says how many, and until when to wait, and exits with 3. Once none is left,\n" +
				"connections, credentials, logins and API keys go, too. Digests of keys stay, so that nothing is sent twice. It may\n" +
				"be stopped and repeated at any time.",
			Flags: accessFlags(
				&cli.BoolFlag{Name: "yes", Usage: "do it: what is erased does not come back"},
			),
			Action: eraseProject,
		}},
	}
}

func listProjects(ctx context.Context, cmd *cli.Command) error {
	return withAccess(ctx, cmd, nil, func(a access) error {
		all := &adminv1.ListProjectsResponse{}
		for page, err := range client.Pages(ctx, a.ListProjects, &adminv1.ListProjectsRequest{PageSize: store.MaxBatch}) {
			if err != nil {
				return err
			}
			all.Projects = append(all.GetProjects(), page.GetProjects()...)
		}
		if printed, err := client.Print(cmd, all); printed || err != nil {
			return err
		}
		rows := [][]string{{"PROJECT", "CREATED", "ERASED", "BY"}}
		for _, p := range all.GetProjects() {
			rows = append(rows, []string{p.GetProjectId(), day(p.GetCreateTime()), day(p.GetEraseTime()), cmp.Or(p.GetErasedBy(), "-")})
		}
		return client.PrintTable(cmd, rows)
	})
}

func eraseProject(ctx context.Context, cmd *cli.Command) error {
	if cmd.Args().Len() != 1 {
		return exit.Usagef("one project is needed")
	}
	project := cmd.Args().First()
	if !cmd.Bool("yes") {
		return exit.Usagef("--yes is needed: what is erased of project %s does not come back", project)
	}
	return withAccess(ctx, cmd, nil, func(a access) error {
		shown := progress.New(cmd.Root().ErrWriter)
		defer shown.Clear()
		sum, req := &adminv1.EraseProjectResponse{}, &adminv1.EraseProjectRequest{ProjectId: project}
		for part, err := range client.Pages(ctx, a.EraseProject, req) {
			if err != nil {
				return err
			}
			part.ErasedJobCount += sum.GetErasedJobCount()
			part.BlankedEventCount += sum.GetBlankedEventCount()
			part.ErasedConnectionCount += sum.GetErasedConnectionCount()
			part.ErasedLoginCount += sum.GetErasedLoginCount()
			part.ErasedApiKeyCount += sum.GetErasedApiKeyCount()
			shown.Show("%d jobs erased, the words of %d events", part.GetErasedJobCount(), part.GetBlankedEventCount())
			sum = part
		}
		shown.Clear()
		switch printed, err := client.Print(cmd, sum); {
		case err != nil:
			return err
		case !printed:
			fmt.Fprintf(cmd.Root().Writer, "erased: %d jobs, the words of %d events, %d connections, %d logins, %d API keys\n",
				sum.GetErasedJobCount(), sum.GetBlankedEventCount(), sum.GetErasedConnectionCount(), sum.GetErasedLoginCount(), sum.GetErasedApiKeyCount())
		}
		return eraseRest(project, sum)
	})
}

// eraseRest describes what is left, and the remedy.
func eraseRest(project string, r *adminv1.EraseProjectResponse) error {
	if r.GetDone() {
		return nil
	}
	what := fmt.Sprintf("project %s still has %d open jobs and %d ended ones", project, r.GetOpenJobCount(), r.GetKeptJobCount())
	if r.GetOpenJobCount() > 0 {
		what += "; end the open ones with a key of the project, and revoke that key"
	}
	if r.GetRetryTime() != nil {
		what += "; repeat the command from " + day(r.GetRetryTime()) + " on"
	}
	return connect.NewError(connect.CodeFailedPrecondition, errors.New(what))
}
