// A third language, over nothing but generated code: what docs/other-languages.md says is enough. Takes the sidecar's address.

#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "health.grpc.pb.h"
#include "pannier/v1/conversation.grpc.pb.h"
#include "pannier/v1/dedup.grpc.pb.h"
#include "pannier/v1/schedule.grpc.pb.h"
#include "pannier/v1/status.pb.h"

namespace {

namespace v1 = pannier::v1;
using namespace std::chrono_literals;

void check(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

// New for each call, kept over its retries.
std::string request_id() {
  static std::random_device random;
  std::string id;
  for (int n = 0; n < 4; n++) {
    char part[9];
    std::snprintf(part, sizeof part, "%08x", static_cast<unsigned>(random()));
    id += part;
  }
  return id;
}

// What a call is made with: a deadline, always.
std::unique_ptr<grpc::ClientContext> within(std::chrono::milliseconds time) {
  auto context = std::make_unique<grpc::ClientContext>();
  context->set_deadline(std::chrono::system_clock::now() + time);
  return context;
}

// Calls a method of a stub; the answer, or an exception that says why there is none.
template <typename Answer, typename Stub, typename Method, typename Request>
Answer call(Stub& stub, Method method, const Request& request) {
  Answer answer;
  const grpc::Status status = (stub.*method)(within(5s).get(), request, &answer);
  check(status.ok(), "failed with code " + std::to_string(status.error_code()) + ": " + status.error_message());
  return answer;
}

// Why a call failed, from the details that come with its status.
struct Failure {
  std::string reason, domain, field;
};

Failure failure(const grpc::Status& status) {
  Failure found;
  // The wire format of google.rpc.Status and of the messages in it.
  v1::Status details;
  check(details.ParseFromString(status.error_details()), "details that cannot be read");
  check(details.code() == status.error_code(), "details of another status");
  for (const auto& detail : details.details()) {
    if (detail.type_url() == "type.googleapis.com/google.rpc.ErrorInfo") {
      v1::ErrorInfo info;
      check(info.ParseFromString(detail.value()), "an ErrorInfo that cannot be read");
      found.reason = info.reason();
      found.domain = info.domain();
    } else if (detail.type_url() == "type.googleapis.com/google.rpc.BadRequest") {
      v1::BadRequest bad;
      check(bad.ParseFromString(detail.value()) && bad.field_violations_size() == 1, "a BadRequest without a field");
      found.field = bad.field_violations(0).field();
    }
  }
  return found;
}

void health(const std::shared_ptr<grpc::Channel>& channel) {
  const auto stub = grpc::health::v1::Health::NewStub(channel);
  grpc::health::v1::HealthCheckResponse answer;
  const auto until = std::chrono::steady_clock::now() + 30s;
  for (;;) {
    grpc::Status status = stub->Check(within(1s).get(), {}, &answer);
    if (status.ok() && answer.status() == grpc::health::v1::HealthCheckResponse::SERVING) return;
    check(std::chrono::steady_clock::now() < until, "not SERVING within 30 s: " + status.error_message());
    std::this_thread::sleep_for(50ms);
  }
}

void a_message_is_claimed_once(const std::shared_ptr<grpc::Channel>& channel) {
  const auto stub = v1::DedupService::NewStub(channel);
  v1::ClaimRequest request;
  request.set_request_id(request_id());
  request.set_key("message:wamid.1");
  request.mutable_in_progress_ttl()->set_seconds(60);
  const auto first = call<v1::ClaimResponse>(*stub, &v1::DedupService::Stub::Claim, request);
  check(first.outcome() == v1::ClaimResponse::OUTCOME_NEW && !first.replayed(), "the first is not NEW");
  // The same call again, as after an answer that was lost.
  const auto again = call<v1::ClaimResponse>(*stub, &v1::DedupService::Stub::Claim, request);
  check(again.outcome() == v1::ClaimResponse::OUTCOME_NEW && again.replayed(), "the repetition is not replayed");
  check(again.fence() == first.fence(), "the repetition has another fence");
  request.set_request_id(request_id());
  const auto second = call<v1::ClaimResponse>(*stub, &v1::DedupService::Stub::Claim, request);
  check(second.outcome() == v1::ClaimResponse::OUTCOME_IN_PROGRESS, "the second is not IN_PROGRESS");
  check(second.retry_after().seconds() >= 50, "no retry_after");
  v1::CompleteClaimRequest done;
  done.set_request_id(request_id());
  done.set_key(request.key());
  done.set_fence(first.fence());
  done.set_result("sent");
  const auto completed = call<v1::CompleteClaimResponse>(*stub, &v1::DedupService::Stub::CompleteClaim, done);
  check(completed.outcome() == v1::CompleteClaimResponse::OUTCOME_COMPLETED, "not COMPLETED");
  request.set_request_id(request_id());
  const auto third = call<v1::ClaimResponse>(*stub, &v1::DedupService::Stub::Claim, request);
  check(third.outcome() == v1::ClaimResponse::OUTCOME_DUPLICATE && third.result() == "sent", "not a DUPLICATE with its result");
}

void a_conversation_is_advanced(const std::shared_ptr<grpc::Channel>& channel) {
  const auto stub = v1::ConversationService::NewStub(channel);
  v1::AdvanceRequest request;
  request.set_request_id(request_id());
  request.set_id("34600111222");
  request.set_step("ask_name");
  (*request.mutable_set())["lang"] = "es";
  request.set_expected_version(0);
  const auto begun = call<v1::AdvanceResponse>(*stub, &v1::ConversationService::Stub::Advance, request);
  check(begun.outcome() == v1::AdvanceResponse::OUTCOME_ADVANCED && begun.state().step() == "ask_name", "not ADVANCED");
  check(begun.state().fields().at("lang") == "es", "the field is not there");
  request.set_request_id(request_id());
  const auto late = call<v1::AdvanceResponse>(*stub, &v1::ConversationService::Stub::Advance, request);
  check(late.outcome() == v1::AdvanceResponse::OUTCOME_CONFLICT, "not a CONFLICT");
  check(late.state().version() == begun.state().version(), "a conflict that wrote");
}

void a_job_is_enqueued_once(const std::shared_ptr<grpc::Channel>& channel) {
  const auto stub = v1::ScheduleService::NewStub(channel);
  v1::EnqueueRequest request;
  request.set_request_id(request_id());
  request.set_queue("reminders");
  request.mutable_job()->set_id("invoice:7");
  request.mutable_job()->set_payload("pay, please");
  request.mutable_job()->mutable_delay()->set_seconds(3600);
  const auto first = call<v1::EnqueueResponse>(*stub, &v1::ScheduleService::Stub::Enqueue, request);
  check(first.job().outcome() == v1::Enqueued::OUTCOME_CREATED && first.job().state() == v1::JOB_STATE_SCHEDULED, "not CREATED");
  request.set_request_id(request_id());
  const auto second = call<v1::EnqueueResponse>(*stub, &v1::ScheduleService::Stub::Enqueue, request);
  check(second.job().outcome() == v1::Enqueued::OUTCOME_EXISTING && second.job().number() == first.job().number(), "not EXISTING");
  v1::GetJobRequest wanted;
  wanted.set_queue("reminders");
  wanted.set_id("invoice:7");
  const auto job = call<v1::GetJobResponse>(*stub, &v1::ScheduleService::Stub::GetJob, wanted);
  check(job.job().payload() == "pay, please", "another payload");
}

void a_wrong_argument_is_named(const std::shared_ptr<grpc::Channel>& channel) {
  const auto stub = v1::DedupService::NewStub(channel);
  v1::ClaimRequest request;
  request.set_request_id(request_id());
  v1::ClaimResponse answer;
  const auto status = stub->Claim(within(5s).get(), request, &answer);
  check(status.error_code() == grpc::INVALID_ARGUMENT, "not INVALID_ARGUMENT: " + status.error_message());
  const auto why = failure(status);
  check(why.reason == "BAD_FIELD" && why.domain == "pannier" && why.field == "key", why.reason + " of " + why.domain + " names " + why.field);
}

void what_is_not_there_is_said_so(const std::shared_ptr<grpc::Channel>& channel) {
  const auto stub = v1::ScheduleService::NewStub(channel);
  v1::GetJobRequest request;
  request.set_queue("reminders");
  request.set_id("nobody");
  v1::GetJobResponse answer;
  const auto status = stub->GetJob(within(5s).get(), request, &answer);
  check(status.error_code() == grpc::NOT_FOUND, "not NOT_FOUND: " + status.error_message());
  check(failure(status).reason == "JOB_NOT_FOUND", failure(status).reason);
}

void a_deadline_holds(const std::shared_ptr<grpc::Channel>& channel) {
  const auto stub = v1::ScheduleService::NewStub(channel);
  v1::LeaseJobsRequest request;
  request.set_request_id(request_id());
  request.set_queue("empty");
  request.mutable_wait()->set_seconds(30);
  v1::LeaseJobsResponse answer;
  const auto began = std::chrono::steady_clock::now();
  const auto status = stub->LeaseJobs(within(300ms).get(), request, &answer);
  const auto took = std::chrono::steady_clock::now() - began;
  check(status.error_code() == grpc::DEADLINE_EXCEEDED, "not DEADLINE_EXCEEDED: " + std::to_string(status.error_code()));
  check(took >= 250ms && took < 5s, "not after the deadline");
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::fprintf(stderr, "usage: %s unix:/path/to/pannier.sock\n", arguments[0]);
    return 2;
  }
  // A path is no authority.
  grpc::ChannelArguments options;
  options.SetString(GRPC_ARG_DEFAULT_AUTHORITY, "localhost");
  const auto channel = grpc::CreateCustomChannel(arguments[1], grpc::InsecureChannelCredentials(), options);
  const std::vector<std::pair<const char*, std::function<void(const std::shared_ptr<grpc::Channel>&)>>> tests = {
      {"health", health},
      {"a message is claimed once", a_message_is_claimed_once},
      {"a conversation is advanced", a_conversation_is_advanced},
      {"a job is enqueued once", a_job_is_enqueued_once},
      {"a wrong argument is named", a_wrong_argument_is_named},
      {"what is not there is said so", what_is_not_there_is_said_so},
      {"a deadline holds", a_deadline_holds},
  };
  int failed = 0;
  for (const auto& [name, test] : tests) {
    try {
      test(channel);
      std::printf("ok %s\n", name);
    } catch (const std::exception& error) {
      failed++;
      std::printf("FAILED %s: %s\n", name, error.what());
    }
  }
  std::printf("%zu passed, %d failed\n", tests.size() - static_cast<size_t>(failed), failed);
  return failed == 0 ? 0 : 1;
}
