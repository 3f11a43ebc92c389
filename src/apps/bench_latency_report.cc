#include <fmt/format.h>

#include <functional>
#include <nlohmann/json.hpp>

#include "apps/bench.h"
#include "apps/bench_latency.h"
#include "apps/svg_plot.h"

namespace pagoda::apps {
namespace {

using nlohmann::ordered_json;

std::vector<double> each_round(const LatencyReport& report, const LatencyCell& cell, double Speed::*member) {
  std::vector<double> values;
  for (const LatencyCell::Round& round : cell.rounds) values.push_back(speed_of(report, cell, round).*member);
  return values;
}

std::string cell_name(const LatencyCell& cell) {
  switch (cell.work) {
    case Work::kPrefill:
      return fmt::format("prefill of {} tokens", cell.tokens);
    case Work::kDecode:
      return fmt::format("decode at context {}", cell.tokens);
    case Work::kBatch:
      break;
  }
  return fmt::format("decode, batch of {} at {}", cell.sequences, cell.tokens);
}

std::string machine_line(const LatencyReport& r) {
  int64_t stolen = 0;
  for (const int64_t ticks : r.steal_ticks) stolen += ticks;
  return fmt::format(
      "medians of {} rounds; {} on {} threads, {:.2f} GHz, {:.1f} GB/s, {:.0f} int8 and {:.0f} f32 GMAC/s, {} ticks "
      "stolen ({:.1f} %)",
      r.steal_ticks.size(), r.info.isa, r.info.threads, r.rates.clock_ghz, r.bandwidth_gb_s, r.rates.int_gmac_s,
      r.rates.f32_gmac_s, stolen, r.steal_percent);
}

ordered_json machine_json(const LatencyReport& r) {
  int64_t stolen = 0;
  for (const int64_t ticks : r.steal_ticks) stolen += ticks;
  return {{"isa", r.info.isa},
          {"threads", r.info.threads},
          {"bandwidth_gb_s", r.bandwidth_gb_s},
          {"int_gmac_s", r.rates.int_gmac_s},
          {"f32_gmac_s", r.rates.f32_gmac_s},
          {"clock_ghz", r.rates.clock_ghz},
          {"steal_ticks", stolen},
          {"steal_percent", r.steal_percent}};
}

const char* work_key(Work work) {
  return work == Work::kPrefill ? "prefill" : work == Work::kDecode ? "decode" : "batch_decode";
}

Panel panel_of(const LatencyReport& report, Work work, std::string title, std::string x_label) {
  Panel panel{std::move(title), std::move(x_label), {}, {}, {}, {}};
  for (const LatencyCell& cell : report.cells) {
    if (cell.work != work) continue;
    const Speed speed = median_speed(report, cell);
    panel.x.push_back(std::to_string(work == Work::kBatch ? cell.sequences : cell.tokens));
    panel.measured.push_back(speed.tok_s);
    panel.limit.push_back(speed.limit_tok_s);
    panel.percent.push_back(speed.percent);
  }
  return panel;
}

}  // namespace

Speed speed_of(const LatencyReport& report, const LatencyCell& cell, const LatencyCell::Round& round) {
  const sizing::MachineLimits machine = limits_of(round.bandwidth_gb_s, report.rates);
  const bool prefill = cell.work == Work::kPrefill;
  const double tokens = prefill ? cell.tokens : cell.sequences;
  const int32_t context = cell.tokens + kDecodeSteps / 2;  // of the average step
  const double least = prefill ? sizing::prefill_seconds(report.cost, machine, cell.tokens)
                               : sizing::decode_step_seconds(report.cost, machine, context, cell.sequences);
  return {tokens / round.seconds, tokens / least, 100 * least / round.seconds};
}

Speed median_speed(const LatencyReport& report, const LatencyCell& cell) {
  return {median_of(each_round(report, cell, &Speed::tok_s)), median_of(each_round(report, cell, &Speed::limit_tok_s)),
          median_of(each_round(report, cell, &Speed::percent))};
}

Share load_share(const LatencyReport& report) {
  const double seconds = median_of(report.load_seconds);
  const double least =
      sizing::load_seconds(report.file_bytes, report.info.weight_bytes, limits_of(report.bandwidth_gb_s, report.rates));
  return {seconds, least, 100 * least / seconds};
}

Share memory_share(const LatencyReport& report) {
  const double peak = static_cast<double>(report.peak_bytes);
  const double least = static_cast<double>(report.tensor_bytes + report.kv_bytes);
  return {peak, least, 100 * least / peak};
}

std::string latency_table(const LatencyReport& r) {
  std::string out = fmt::format("{:<34} {:>14} {:>14} {:>7}\n", r.model, "measured", "limit", "percent");
  const auto row = [&](const std::string& what, const std::string& value, const std::string& limit, double percent) {
    out += fmt::format("{:<34} {:>14} {:>14} {:>7.0f}\n", what, value, limit, percent);
  };
  const Share load = load_share(r), memory = memory_share(r);
  row("load", fmt::format("{:.2f} s", load.value), fmt::format("{:.2f} s", load.limit), load.percent);
  for (const LatencyCell& cell : r.cells) {
    const Speed speed = median_speed(r, cell);
    row(cell_name(cell), fmt::format("{:.1f} tok/s", speed.tok_s), fmt::format("{:.1f} tok/s", speed.limit_tok_s),
        speed.percent);
  }
  row("peak memory (limit: weights + KV)", fmt::format("{:.0f} MB", memory.value * 1e-6),
      fmt::format("{:.0f} MB", memory.limit * 1e-6), memory.percent);
  return out + machine_line(r) + "\n";
}

std::string latency_json(const LatencyReport& r) {
  const Share load = load_share(r), memory = memory_share(r);
  ordered_json out = {{"model", r.model},
                      {"load",
                       {{"seconds", load.value},
                        {"limit_seconds", load.limit},
                        {"percent_of_limit", load.percent},
                        {"rounds", r.load_seconds}}}};
  for (const Work work : {Work::kPrefill, Work::kDecode, Work::kBatch}) out[work_key(work)] = ordered_json::array();
  for (const LatencyCell& cell : r.cells) {
    const Speed speed = median_speed(r, cell);
    ordered_json row;
    if (cell.work == Work::kBatch) row["sequences"] = cell.sequences;
    row[cell.work == Work::kPrefill ? "tokens" : "context"] = cell.tokens;
    row["tok_s"] = speed.tok_s;
    row["limit_tok_s"] = speed.limit_tok_s;
    row["percent_of_limit"] = speed.percent;
    row["rounds"] = each_round(r, cell, &Speed::tok_s);
    out[work_key(cell.work)].push_back(std::move(row));
  }
  out["memory"] = {{"peak_bytes", r.peak_bytes},
                   {"weight_bytes", r.tensor_bytes},
                   {"kv_bytes", r.kv_bytes},
                   {"packed_bytes", r.info.weight_bytes},
                   {"percent_of_limit", memory.percent}};
  out["machine"] = machine_json(r);
  return out.dump();
}

std::string latency_shape_json(const LatencyReport& r) {
  ordered_json out;
  for (const LatencyCell& cell : r.cells) {
    const std::string name = fmt::format("{}_tok_s", work_key(cell.work));
    const Speed speed = median_speed(r, cell);
    out[name] = speed.tok_s;
    out[name + "_percent_of_limit"] = speed.percent;
  }
  out["rounds"] = ordered_json::array();
  for (size_t i = 0; i < r.steal_ticks.size(); ++i) {
    ordered_json row;
    double bandwidth = 0;
    for (const LatencyCell& cell : r.cells) {
      row[fmt::format("{}_tok_s", work_key(cell.work))] = speed_of(r, cell, cell.rounds[i]).tok_s;
      bandwidth += cell.rounds[i].bandwidth_gb_s / static_cast<double>(r.cells.size());
    }
    row["bandwidth_gb_s"] = bandwidth;
    row["steal_ticks"] = r.steal_ticks[i];
    out["rounds"].push_back(std::move(row));
  }
  out["machine"] = machine_json(r);
  return out.dump();
}

std::string latency_svg(const LatencyReport& r) {
  std::vector<Panel> panels;
  panels.push_back(panel_of(r, Work::kPrefill, "Prefill", "prompt, tokens"));
  panels.push_back(panel_of(r, Work::kDecode, "Decode, one sequence", "context, tokens"));
  panels.push_back(panel_of(r, Work::kBatch, "Decode, batched", "sequences, context 128"));
  std::erase_if(panels, [](const Panel& panel) { return panel.x.empty(); });
  const Share load = load_share(r), memory = memory_share(r);
  return svg_plot(fmt::format("{}: load {:.2f} s, peak memory {:.0f} MB ({:.0f} % weights and KV)", r.model, load.value,
                              memory.value * 1e-6, memory.percent),
                  machine_line(r), "tokens/s", panels);
}

}  // namespace pagoda::apps
