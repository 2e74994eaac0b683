import type { Job } from "@gen/v1/job_pb.js";

/** Ways to read the same job outside of the page. */
export function copyAs(job: Job, address: string, keyRequired: boolean): { label: string; text: string }[] {
  const host = address.replace(/^https?:\/\//, "");
  const auth = keyRequired ? ` -H "Authorization: Bearer $FIREONCE_API_KEY"` : "";
  const plain = address.startsWith("http://") ? " -plaintext" : "";
  return [
    {
      label: "curl",
      text: `curl ${address}/fireonce.v1.JobService/GetJob -H 'Content-Type: application/json'${auth} -d '{"jobId":"${job.jobId}"}'`,
    },
    {
      label: "grpcurl",
      text: `grpcurl${plain}${auth} -d '{"job_id":"${job.jobId}"}' ${host} fireonce.v1.JobService/GetJob`,
    },
    { label: "Command line", text: `fireonce get ${job.jobId}` },
    {
      label: "Go",
      text: `job, err := client.Jobs.GetJob(ctx, &fireoncev1.GetJobRequest{Job: &fireoncev1.GetJobRequest_JobId{JobId: "${job.jobId}"}})`,
    },
    { label: "TypeScript", text: `const { job } = await jobs.getJob({ job: { case: "jobId", value: "${job.jobId}" } });` },
    { label: "Job's id", text: job.jobId },
    { label: "Idempotency key", text: job.idempotencyKey },
    { label: "Link to this page", text: window.location.href },
  ];
}
