// A line for each family: its row, which its file defines.
#pragma once

#include "core/models/family.h"

namespace lockstep::models {

const Family& gpt();
const Family& llama();
const Family& qwen();
const Family& gemma();
const Family& mistral();
const Family& bert();
const Family& bert_classifier();
const Family& t5();
const Family& lstm();
const Family& vit();
const Family& resnet();
const Family& convnext();
const Family& unet();
const Family& mixer();
const Family& dlrm();
const Family& vae();
const Family& dcgan();

}  // namespace lockstep::models
